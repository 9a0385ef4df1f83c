import PushPool

/// 429 for what is neither a device nor the provider token: the whole credential backs off (docs/answers.md).
extension Dispatcher {
    /// Every app that shows this credential to this host waits, whichever of them was told.
    mutating func throttled(_ reason: HoldReason, pause: Duration?, app index: Int) {
        for app in sharers(of: index) {
            perform(apps[app].gate.throttled(reason, for: pause, now: now, isToldItself: app == index), app: app)
        }
    }

    /// What one of them may send, the others may, too: they may have no job to find it out with.
    mutating func endThrottles(with index: Int) {
        for app in sharers(of: index) where app != index { perform(apps[app].gate.throttleEnded(), app: app) }
    }

    /// The app itself, and those with its credential and its host.
    private func sharers(of index: Int) -> [Int] {
        let app = settings.apps[index]
        return settings.apps.indices.filter {
            settings.apps[$0].credential == app.credential && settings.apps[$0].pool.host == app.pool.host
        }
    }
}
