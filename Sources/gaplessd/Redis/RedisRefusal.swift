import RedisQueue

/// What Redis refuses, as a fault of the settings: which key is to blame, what is wrong, and what would be right.
enum RedisRefusal {
    /// - Parameter text: an error reply, its code somewhere in it.
    static func fault(_ text: String, _ settings: Settings) -> SettingsError {
        func has(_ words: String) -> Bool { text.firstRange(of: words) != nil }
        if has("NOAUTH") {
            return SettingsError(
                key: "redis_password", problem: "is missing, and Redis wants one (\(text))",
                remedy: "redis_password, or redis_password_file, would be right")
        }
        if has("AUTH was refused") {
            let isNeedless = has("has no password")
            return SettingsError(
                key: "redis_password", problem: text,
                remedy: isNeedless
                    ? "leave it out" : "the password, and redis_username where there is one, as Redis knows them would be right")
        }
        if has("DB index is out of range") || has("SELECT is not allowed in cluster mode") {
            return SettingsError(
                key: "redis_db", problem: "is \(settings.redis.database), and Redis has no such database (\(text))",
                remedy: has("DB index")
                    ? "a number below redis.conf's 'databases', usually 16, would be right" : "0 would be right")
        }
        if has("CROSSSLOT") { return crossing(text, settings) }
        if has("WRONGTYPE") { return SettingsError(key: "redis_queue_key", problem: text, remedy: KeyTypes.remedy) }
        if has("knows no master of this name") {
            return SettingsError(
                key: "redis_sentinel_master", problem: text,
                remedy: "the name that Sentinel's own settings give the master would be right")
        }
        if has("is no Sentinel") {
            return SettingsError(
                key: "redis_sentinels", problem: text,
                remedy: "the addresses of Sentinels, usually with port 26379, would be right")
        }
        if lacksRight(text) { return SettingsError(key: "redis_username", problem: text, remedy: Self.rightsRemedy) }
        return SettingsError(key: "", problem: text, remedy: "")
    }

    /// Keys in more than one slot: the results are elsewhere, or no key can be beside the list, since what Redis hashes of its name
    /// ends at a brace.
    private static func crossing(_ text: String, _ settings: Settings) -> SettingsError {
        guard let list = settings.lists.first(where: { !Keys(list: $0).canShareSlot }) else {
            return SettingsError(
                key: "redis_results_key", problem: text,
                remedy: "a name with the list's own {tag}, such as \"{apns_queue}:results\", would be right")
        }
        return SettingsError(
            key: "redis_queue_key", problem: "has \"\(list)\": \(text)",
            remedy: "in a Redis Cluster, a name without \"}\", or with a {tag} that is not empty, would be right")
    }

    private static let rightsRemedy = "a user with the rights that docs/redis.md names would be right"

    /// Redis words it in its own way where a script meets it.
    static func lacksRight(_ text: String) -> Bool {
        ["NOPERM", "can't run this command", "can't access at least one"].contains { text.firstRange(of: $0) != nil }
    }

    /// For who has the text alone, where `check` would ask Redis for more; empty where there is no more.
    static func checkHint(_ text: String) -> String {
        if text.firstRange(of: "WRONGTYPE") != nil { return "'gaplessd check' names the key" }
        return lacksRight(text) ? "'gaplessd check' names every right that is missing" : ""
    }

    /// The same, and the names of keys of a wrong type and of rights that are missing: they are asked of Redis on a connection of
    /// their own.
    static func lines(_ text: String, _ settings: Settings) -> [String] {
        var faults: [SettingsError] = []
        if text.firstRange(of: "WRONGTYPE") != nil, var client = try? RedisAccess.connect(settings) {
            faults = (try? KeyTypes(allOf: settings).faults(&client)) ?? []
            for index in faults.indices { faults[index].problem += " (WRONGTYPE)" }
        }
        if lacksRight(text), var client = try? RedisAccess.connect(settings) {
            let rights = (try? rights(&client, settings)) ?? []
            faults = rights.flatMap(\.faults).unique.map {
                SettingsError(key: "redis_username", problem: $0, remedy: rightsRemedy)
            }
        }
        return faults.isEmpty ? [fault(text, settings).line] : faults.map(\.line)
    }

    /// One for each list.
    static func rights(_ client: inout RedisClient, _ settings: Settings) throws(RedisError) -> [UserRights] {
        var rights: [UserRights] = []
        for queue in settings.queues { rights.append(try UserRights.read(&client, queue)) }
        return rights
    }
}
