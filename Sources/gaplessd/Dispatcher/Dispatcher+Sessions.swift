import PushPool

/// What pools tell of their sessions.
extension Dispatcher {
    mutating func happened(_ event: PoolEvent, app index: Int) {
        let app = apps[index]
        if case .opened(let session, _, _) = event { app.sessions.insert(session) }
        if case .closed(let session, _, _) = event { app.sessions.remove(session) }
        switch event {
        case .opened(let session, let address, let streams):
            log.info("\(app.label)Session \(session.number) to \(address) is open, \(streams.counted("stream")).")
        case .closed(let session, let address, .closedByUs):
            log.info("\(app.label)Session \(session.number) to \(address) is closed.")
        case .closed(let session, let address, let fault):
            log.warning("\(app.label)Session \(session.number) to \(address) is closed: \(fault.logText).")
            if let reason = HoldReason(fault), app.pool.usesPresentCredential(session) {
                perform(app.gate.faulted(reason, now: now), app: index)
            }
        case .dialFailed(let session, let address, let fault, let wait):
            log.warning("\(app.label)No session to \(address): \(fault.logText). Again in \(wait.roundedSeconds) s.")
            // Begun before a reload, it has shown a credential that is no longer in use.
            if let reason = HoldReason(fault), app.pool.usesPresentCredential(session) {
                perform(app.gate.faulted(reason, now: now), app: index)
            }
        case .capacityChanged: break
        case .resized(let before, let count):
            let why = count > before ? "all were full" : "fewer are enough"
            log.info("\(app.label)\(count) sessions instead of \(before): \(why).")
        case .slowed(let limit):
            let pushes = limit == 1 ? "1 push" : "\(limit) pushes"
            log.warning("\(app.label)APNs asks for calm (ENHANCE_YOUR_CALM): at most \(pushes) a second from now on.")
            // What is more than these need is counted by LLEN again.
            takeBack(app: index)
        case .slowdownEnded:
            log.info("\(app.label)APNs has not asked for calm again: its limit of pushes a second is gone.")
        case .tokens(let news):
            if case .notKept = news { log.warning(app.label + news.logText) } else { log.info(app.label + news.logText) }
        }
    }
}
