import Clocks
import PushPool
import RedisQueue

/// SIGHUP: settings and credentials anew, whole or not at all.
extension Dispatcher {
    /// What a reload reads: the same file as at the start.
    typealias ReadAnew = () -> Result<Configuration, SettingsErrors>

    mutating func reload() {
        guard phase == .running else { return log.warning("Reload ignored: gaplessd is stopping.") }
        switch readAnew() {
        case .failure(let refusal): refuse(refusal.lines)
        case .success(let read):
            let new = read.ordered(like: settings.apps.map(\.name))
            let fixed = new.settings.differencesThatNeedARestart(from: settings)
            if !fixed.isEmpty {
                return refuse(
                    fixed.map { "\(new.file): \($0): cannot change while gaplessd runs; restart it, or put the old value back" })
            }
            do {
                try watch.follow(new)
            } catch {
                return refuse([error.line(file: new.file)])
            }
            adopt(new)
        }
    }

    private mutating func refuse(_ lines: [String]) {
        for line in lines { log.error("Reload: \(line)") }
        log.error("Reload refused: the settings and credentials of before stay in use.")
    }

    /// No app gets the new while another must keep the old: what could fail has been made with the configuration.
    private mutating func adopt(_ new: Configuration) {
        settings = new.settings
        plan = DaemonPlan(new.settings)
        reader = JobReader(retryLimit: plan.policy.limit, appNames: Set(apps.compactMap(\.name)))
        routes = AppRoutes(names: apps.map(\.name), new.credentials)
        certificates = CertificateWatch(new, now: wallClock.unixSeconds)
        nextCertificateCheck = now
        filter = new.filter
        log.change(format: new.settings.log.format, level: new.settings.log.level)
        for warning in new.warnings { log.warning(warning) }
        pacer.change(
            pushesPerSecond: new.settings.limits.pushesPerSecond, bitsPerSecond: new.settings.limits.bitsPerSecond)
        for app in apps { app.pool.limitsChanged() }
        for list in lists { list.queue.adopt(new.settings.queue(list.name), tls: new.redisTLS) }
        for (index, credential) in new.credentials.enumerated() {
            apps[index].pool.replace(with: credential.setup)
            apps[index].adopt(credential)
            // The environment may be another one now: what the old one said of their tokens means nothing.
            giveBackSuspects(app: index)
            let effects = apps[index].gate.reloaded()
            // It was held: what the old sessions were refused for, the next job must not be.
            if !effects.isEmpty { apps[index].pool.reconnect() }
            perform(effects, app: index)
        }
        log.info(
            "Reloaded: new sessions come up with the settings and credentials as they are now; until one is open those of before go on."
        )
    }
}

extension Configuration {
    /// The same, its apps in the order of these names; as it is where the names are others.
    fileprivate func ordered(like names: [String?]) -> Configuration {
        let own = settings.apps.map(\.name)
        let places = names.compactMap { own.firstIndex(of: $0) }
        guard own.count == names.count, places.count == names.count else { return self }
        var ordered = self
        ordered.settings.apps = places.map { settings.apps[$0] }
        ordered.credentials = places.map { credentials[$0] }
        return ordered
    }
}

extension Settings {
    /// What a running daemon cannot change: its place in Redis, how it keeps its jobs there, the set of its apps.
    func differencesThatNeedARestart(from old: Settings) -> [String] {
        var keys = redis.differences(from: old.redis)
        if lists != old.lists { keys.append("redis_queue_key") }
        if apps.map(\.name) != old.apps.map(\.name) { keys.append("apps") }
        return keys
    }
}

extension Settings.Redis {
    /// The keys that say something else than before.
    fileprivate func differences(from old: Settings.Redis) -> [String] {
        let all: [(key: String, isSame: Bool)] = [
            (placeKey, server == old.server), ("redis_db", database == old.database),
            ("redis_tls and its files", tls == old.tls), ("redis_delivery", delivery == old.delivery),
            ("redis_lease", lease == old.lease),
        ]
        return all.filter { !$0.isSame }.map(\.key)
    }

    private var placeKey: String {
        switch server {
        case .tcp: "redis_host or redis_port"
        case .unix: "redis_socket_path"
        case .sentinels: "redis_sentinels or redis_sentinel_master"
        }
    }
}
