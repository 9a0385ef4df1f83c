import RedisQueue

/// What Redis refuses, as a fault of the settings: which key is to blame, what is wrong, and what would be right.
enum RedisRefusal {
    /// - Parameter text: an error reply, its code somewhere in it.
    static func fault(_ text: String, _ settings: Settings) -> SettingsFault {
        func has(_ words: String) -> Bool { text.firstRange(of: words) != nil }
        if has("NOAUTH") {
            return SettingsFault(
                key: "redis_password", problem: "is missing, and Redis wants one (\(text))",
                remedy: "redis_password, or redis_password_file, would be right")
        }
        if has("AUTH was refused") {
            let isNeedless = has("has no password")
            return SettingsFault(
                key: "redis_password", problem: text,
                remedy: isNeedless ? "leave it out" : "the password, and redis_username where there is one, as Redis knows them would be right")
        }
        if has("DB index is out of range") || has("SELECT is not allowed in cluster mode") {
            return SettingsFault(
                key: "redis_db", problem: "is \(settings.redis.database), and Redis has no such database (\(text))",
                remedy: has("DB index") ? "a number below redis.conf's 'databases', usually 16, would be right" : "0 would be right")
        }
        if has("CROSSSLOT") { return SettingsFault(key: "redis_results_key", problem: text, remedy: "") }
        if has("WRONGTYPE") {
            return SettingsFault(
                key: "", problem: text, remedy: "'gaplessd check' names the key; another one in the settings, or none there in Redis, would be right")
        }
        if has("NOPERM") {
            return SettingsFault(key: "redis_username", problem: text, remedy: "'gaplessd check' names every right that is missing")
        }
        return SettingsFault(key: "", problem: text, remedy: "")
    }

    /// The same, and for a key of a wrong type its name: that is asked of Redis on a connection of its own.
    static func lines(_ text: String, _ settings: Settings) -> [String] {
        guard text.firstRange(of: "WRONGTYPE") != nil, var client = try? RedisAccess.connect(settings),
            let wrong = try? KeyTypes(allOf: settings).faults(&client), !wrong.isEmpty
        else { return [fault(text, settings).line] }
        return wrong.map { "\($0) (WRONGTYPE); another key in the settings, or none there in Redis, would be right" }
    }
}

/// Whether keys hold what gaplessd keeps there.
struct KeyTypes {
    private var kinds: [(key: String, kind: String)]

    /// The lists of jobs alone: all that a producer needs, and may be allowed to look at.
    init(listsOf settings: Settings) {
        kinds = settings.lists.map { ($0, "list") }
    }

    /// Every key that the daemon uses.
    init(allOf settings: Settings) {
        self.init(listsOf: settings)
        for list in settings.lists {
            let keys = Keys(list: list)
            kinds += [(keys.delayed, "zset"), (keys.dead, "list"), (keys.feedback, "list"), (keys.stats, "hash")]
            kinds += [(keys.workers, "zset")] + keys.recovered.map { ($0, "list") }
        }
        if let results = settings.redis.resultsKey { kinds.append((results, "stream")) }
    }

    /// What is of another type: a sentence for each.
    func faults(_ client: inout RedisClient) throws(RedisError) -> [String] {
        var faults: [String] = []
        for (key, kind) in kinds {
            guard let type = try type(of: key, &client) else { continue }
            if type != kind && type != "none" { faults.append("the key \(key.printable) is a \(words(type)), not a \(words(kind))") }
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
