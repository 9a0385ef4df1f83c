import RedisQueue

/// The expected types of the keys in Redis.
struct KeyTypes {
    static let expected = "another key in the settings, or no such key in Redis"

    private var kinds: [(key: String, kind: String, setting: String)]

    /// The lists of jobs only: a producer needs no other key, and may have no right for others.
    init(listsOf settings: Settings) {
        kinds = settings.lists.map { ($0, "list", "redis_queue_key") }
    }

    /// Every key that the daemon uses.
    init(allOf settings: Settings) {
        self.init(listsOf: settings)
        for list in settings.lists {
            kinds += Keys(list: list).types.map { ($0.key, $0.type, "redis_queue_key") }
        }
        if let results = settings.redis.resultsKey { kinds.append((results, "stream", "redis_results_key")) }
    }

    /// Returns the keys of another type, each with the setting that names it.
    func faults(_ client: inout RedisClient) throws(RedisError) -> [SettingsError] {
        var faults: [SettingsError] = []
        for (key, kind, setting) in kinds {
            guard let type = try type(of: key, &client), type != kind, type != "none" else { continue }
            let problem = "the key \(key.printable) is a \(words(type)), not a \(words(kind))"
            faults.append(SettingsError(key: setting, problem: problem, remedy: "expected \(Self.expected)"))
        }
        return faults
    }

    /// `nil` if this user may not ask, or if Redis does not know the command: `UserRights` reports that.
    private func type(of key: String, _ client: inout RedisClient) throws(RedisError) -> String? {
        do throws(RedisError) {
            return try client.command(["TYPE", key]).text
        } catch {
            if case .reply(let reply) = error, reply.isMissingRight || reply.kind == .unknownCommand { return nil }
            throw error
        }
    }

    /// The name of a Redis type in messages.
    private func words(_ type: String) -> String { type == "zset" ? "sorted set" : type }
}
