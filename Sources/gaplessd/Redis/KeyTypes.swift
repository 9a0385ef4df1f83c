import RedisQueue

/// Whether keys hold what gaplessd keeps there.
struct KeyTypes {
    static let remedy = "another key in the settings, or none there in Redis, would be right"

    private var kinds: [(key: String, kind: String, setting: String)]

    /// The lists of jobs alone: all that a producer needs, and may be allowed to look at.
    init(listsOf settings: Settings) {
        kinds = settings.lists.map { ($0, "list", "redis_queue_key") }
    }

    /// Every key that the daemon uses.
    init(allOf settings: Settings) {
        self.init(listsOf: settings)
        for list in settings.lists {
            let keys = Keys(list: list)
            let beside = [
                (keys.delayed, "zset"), (keys.dead, "list"), (keys.feedback, "list"), (keys.stats, "hash"),
                (keys.workers, "zset"),
            ]
            kinds += (beside + keys.recovered.map { ($0, "list") }).map { ($0, $1, "redis_queue_key") }
        }
        if let results = settings.redis.resultsKey { kinds.append((results, "stream", "redis_results_key")) }
    }

    /// What is of another type, each with the setting that it comes of.
    func faults(_ client: inout RedisClient) throws(RedisError) -> [SettingsError] {
        var faults: [SettingsError] = []
        for (key, kind, setting) in kinds {
            guard let type = try type(of: key, &client), type != kind, type != "none" else { continue }
            let problem = "the key \(key.printable) is a \(words(type)), not a \(words(kind))"
            faults.append(SettingsError(key: setting, problem: problem, remedy: Self.remedy))
        }
        return faults
    }

    /// `nil` where this user may not ask: what it may not do is for `UserRights` to say.
    private func type(of key: String, _ client: inout RedisClient) throws(RedisError) -> String? {
        do throws(RedisError) {
            return try client.command(["TYPE", key]).text
        } catch {
            if case .reply(let text) = error, text.firstRange(of: "NOPERM") != nil { return nil }
            throw error
        }
    }

    /// A type of Redis as people call it.
    private func words(_ type: String) -> String { type == "zset" ? "sorted set" : type }
}
