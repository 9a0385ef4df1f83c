import RedisQueue

/// Words a refusal of Redis as a fault of the settings: the key, the problem and the expected value.
enum RedisRefusal {
    static func fault(_ error: RedisError, _ settings: Settings) -> SettingsError {
        func fault(_ key: String, expected: String, problem: String? = nil) -> SettingsError {
            SettingsError(key: key, problem: problem ?? error.description, remedy: "expected \(expected)")
        }
        // A Sentinel has a password of its own, or that of Redis.
        let isOfSentinel = if case .noMaster = error { true } else { false }
        switch error.cause {
        case .authenticationRefused where isOfSentinel:
            return fault(
                "redis_sentinel_password",
                expected: "the password of the Sentinels, and redis_sentinel_username if they have users"
                    + (settings.redis.sentinelPassword == nil ? "; without it they get redis_password" : ""))
        case .authenticationRefused(_, let isNeedless):
            return fault(
                "redis_password", expected: isNeedless ? "no password" : "the password, and redis_username if Redis has users")
        case .unknownMaster: return fault("redis_sentinel_master", expected: "the name of the master in Sentinel's configuration")
        case .notASentinel: return fault("redis_sentinels", expected: "the addresses of Sentinels, usually with port 26379")
        case .reply(let reply):
            switch reply.kind {
            case .passwordMissing where isOfSentinel:
                return fault(
                    "redis_sentinel_password", expected: "redis_sentinel_password or redis_sentinel_password_file",
                    problem: "required key is missing: \(error)")
            case .rightMissing where isOfSentinel:
                return fault("redis_sentinel_username", expected: "a user of the Sentinels that may run SENTINEL")
            case .passwordMissing:
                return fault(
                    "redis_password", expected: "redis_password or redis_password_file",
                    problem: "required key is missing: Redis requires a password (\(reply))")
            case .databaseOutOfRange, .databaseInCluster:
                let isCluster = reply.kind == .databaseInCluster
                return fault(
                    "redis_db", expected: isCluster ? "0" : "a number below 'databases' of redis.conf, usually 16",
                    problem: "Redis has no database \(settings.redis.database) (\(reply))")
            case .crossSlot: return crossing(reply, settings)
            case .wrongType: return fault("redis_queue_key", expected: KeyTypes.expected)
            case .rightMissing: return missingRight(error.description)
            default: break
            }
        default: break
        }
        return SettingsError(key: "", problem: error.description, remedy: "")
    }

    static func missingRight(_ problem: String) -> SettingsError {
        SettingsError(key: "redis_username", problem: problem, remedy: "expected a user with the rights in docs/redis.md")
    }

    /// The keys are in more than one slot: that of the results is elsewhere, or the name of the list contains a brace at which
    /// the hashed part of the name ends.
    static func crossing(_ reply: ErrorReply, _ settings: Settings) -> SettingsError {
        guard let list = settings.lists.first(where: { !Keys(list: $0).canShareSlot }) else {
            return SettingsError(
                key: "redis_results_key", problem: reply.description,
                remedy: "expected a name with the list's own {tag}, such as \"{apns_queue}:results\"")
        }
        return SettingsError(
            key: "redis_queue_key", problem: "the keys of \"\(list)\" are not in one hash slot: \(reply)",
            remedy: "expected a name without \"}\", or with a {tag} that is not empty, in a Redis Cluster")
    }

    /// A hint for a log line, where `check` reports more. Empty where it does not.
    static func checkHint(_ error: RedisError) -> String {
        switch error {
        case .reply(let reply) where reply.kind == .wrongType: "'gaplessd check' names the key"
        case .reply(let reply) where reply.isMissingRight: "'gaplessd check' names every missing right"
        default: ""
        }
    }
}
