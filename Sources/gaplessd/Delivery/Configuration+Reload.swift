import RedisQueue

extension Configuration {
    /// Returns the configuration with its apps under the numbers that they have already; new apps follow. An app that is gone
    /// keeps its number as a removed one.
    func numbered(like old: [Settings.App]) -> Configuration {
        var new = Dictionary(settings.apps.map { ($0.name, $0) }) { first, _ in first }
        var numbered = self
        numbered.settings.apps = old.map { new.removeValue(forKey: $0.name) ?? ($0.isRemoved ? $0 : $0.removed) }
        numbered.settings.apps += settings.apps.filter { new[$0.name] != nil }
        return numbered
    }

    /// An app whose credential cannot be used keeps the previous one, with the settings of the app, unless its file in `apps_dir`
    /// has changed. Returns the faults. Both configurations have the same apps before new ones.
    mutating func keepUsableCredentials(of old: Configuration) -> [String] {
        var faults: [String] = []
        for (index, previous) in old.settings.apps.enumerated() {
            faults += settings.apps[index].keep(what: previous, file: file)
        }
        return faults
    }

    /// Returns for each app whether its settings or its credential differ, or whether it is new. An app without a usable
    /// credential has no sessions to replace.
    func changes(from old: Configuration) -> [Bool] {
        settings.apps.enumerated().map { index, app in
            guard app.credential != nil, index < old.settings.apps.count else { return app.credential != nil }
            return old.settings.apps[index].credential == nil || app != old.settings.apps[index]
        }
    }
}

extension Settings.App {
    /// Keeps the previous app if the credential cannot be used, or lacks the topic that the app has had. Returns the faults.
    ///
    /// - Parameter file: the settings file.
    mutating func keep(what previous: Settings.App, file: String) -> [String] {
        if isRemoved { return [] }
        let name = self.name.map { "app \"\($0)\"".printable } ?? "the top level"
        guard credential != nil else {
            // Its jobs go on waiting for it.
            if defaultTopic == nil { topic = previous.defaultTopic }
            let isOther = self.file != nil && (self.file != previous.file || fileDigest != previous.fileDigest)
            if previous.credential == nil || isOther { return [] }
            defer { self = previous }
            return faults.map { "\($0.line(file: file)). Only \(name) keeps its previous credential" }
        }
        guard previous.credential != nil, let fault = lostTopic(of: previous) else { return [] }
        defer { self = previous }
        return ["\(fault.line(file: file)). Only \(name) keeps its previous credential"]
    }

    /// APNs accepts a certificate without the topic of an app, and drops its pushes. `apns_topic` confirms another topic.
    private func lostTopic(of previous: Settings.App) -> SettingsError? {
        guard topic == nil, let source, let old = previous.defaultTopic, let topics = certificate?.allTopics, !topics.isEmpty,
            !topics.contains(old)
        else { return nil }
        return SettingsError(
            key: keyPrefix + source.key,
            problem: "the certificate has no topic \"\(old)\", which the app has had: \(topics.joined(separator: ", "))",
            expected: "a certificate with this topic, or the new topic as apns_topic", file: self.file)
    }
}

extension Settings {
    /// The keys that differ and that a running daemon cannot change: its place in Redis and its delivery mode.
    func differencesThatNeedARestart(from old: Settings) -> [String] {
        var keys = redis.differences(from: old.redis)
        if lists != old.lists { keys.append("redis_queue_key") }
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
