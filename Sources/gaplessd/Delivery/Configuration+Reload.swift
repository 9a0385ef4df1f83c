import RedisQueue

extension Configuration {
    /// Returns the configuration with its apps in the order of these names; unchanged if the names differ.
    func ordered(like names: [String?]) -> Configuration {
        let own = settings.apps.map(\.name)
        let places = names.compactMap { own.firstIndex(of: $0) }
        guard own.count == names.count, places.count == names.count else { return self }
        var ordered = self
        ordered.settings.apps = places.map { settings.apps[$0] }
        return ordered
    }

    /// An app whose credential cannot be used keeps the previous one, with the settings of the app. Returns the faults. Both
    /// configurations have the same apps.
    mutating func keepUsableCredentials(of old: Configuration) -> [String] {
        var faults: [String] = []
        for (index, previous) in old.settings.apps.enumerated() where previous.credential != nil {
            let app = settings.apps[index]
            if app.credential != nil { continue }
            let name = app.name.map { "app \"\($0)\"".printable } ?? "the top level"
            faults += app.faults.map { "\($0.line(file: file)). Only \(name) keeps its previous credential" }
            settings.apps[index] = previous
        }
        return faults
    }

    /// Returns for each app whether its settings or its credential differ. An app without a usable credential has no sessions to
    /// replace.
    func changes(from old: Configuration) -> [Bool] {
        zip(settings.apps, old.settings.apps).map { $0.credential != nil && $0 != $1 }
    }
}

extension Settings {
    /// The keys that differ and that a running daemon cannot change: its place in Redis, its delivery mode, the set of its apps.
    func differencesThatNeedARestart(from old: Settings) -> [String] {
        var keys = redis.differences(from: old.redis)
        if lists != old.lists { keys.append("redis_queue_key") }
        if apps.map(\.name) != old.apps.map(\.name) { keys.append("apps") }
        return keys
    }
}

extension Settings.Redis {
    fileprivate func differences(from old: Settings.Redis) -> [String] {
        let all: [(key: String, isSame: Bool)] = [
            (placeKey, server == old.server), ("redis_db", database == old.database),
            ("redis_tls or a path of its files", tls == old.tls), ("redis_delivery", delivery == old.delivery),
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
