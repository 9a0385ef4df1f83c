import Platform
import PushPool
import RedisQueue

/// Connects the one-shot calls to Redis. Each of them first checks that the user is accepted, and that the keys of the lists are
/// lists.
enum RedisAccess {
    /// The limit for a dial, and for a reply.
    static let timeout = Duration.seconds(5)

    static func open(_ settings: Settings) throws(ProbeError) -> RedisClient {
        var client = try connect(settings)
        let wrong: [SettingsError]
        do throws(RedisError) {
            wrong = try KeyTypes(listsOf: settings).faults(&client)
        } catch {
            throw ProbeError(error, of: settings)
        }
        guard wrong.isEmpty else { throw .refused(settings, wrong.map(\.line)) }
        return client
    }

    /// Connects without checking the keys.
    static func connect(_ settings: Settings, timeout: Duration = timeout) throws(ProbeError) -> RedisClient {
        let tls = try tls(settings)
        do throws(RedisError) {
            return try RedisClient(settings: settings.connection(timeout: timeout), tls: tls)
        } catch {
            throw ProbeError(error, of: settings)
        }
    }

    /// Returns the faults of the settings behind a refusal, one line each. Wrong types and missing rights are asked of Redis on a
    /// new connection, and all of them are named.
    static func faults(behind error: RedisError, _ settings: Settings) -> [String] {
        var faults: [SettingsError] = []
        if case .reply(let reply) = error, reply.kind == .wrongType || reply.isMissingRight, var client = try? connect(settings) {
            if reply.kind == .wrongType {
                faults = (try? KeyTypes(allOf: settings).faults(&client)) ?? []
                for index in faults.indices { faults[index].problem += " (WRONGTYPE)" }
            } else {
                faults = ((try? rights(&client, settings)) ?? []).flatMap(\.faults).unique.map(RedisRefusal.missingRight)
            }
        }
        return (faults.isEmpty ? [RedisRefusal.fault(error, settings)] : faults).map(\.line)
    }

    /// Reads the rights of the user, one value for each list.
    static func rights(_ client: inout RedisClient, _ settings: Settings) throws(RedisError) -> [UserRights] {
        var rights: [UserRights] = []
        for queue in settings.queues { rights.append(try UserRights.read(&client, queue)) }
        return rights
    }

    private static func tls(_ settings: Settings) throws(ProbeError) -> TLSContext? {
        var findings = SettingsFindings()
        let context = settings.redis.tls.flatMap { $0.read(&findings).context }
        guard findings.faults.isEmpty else {
            throw .refused(findings.faults.map { "\($0.key): \($0.problem)" }.joined(separator: "; "))
        }
        return context
    }
}

extension ProbeError {
    init(_ error: RedisError, of settings: Settings) {
        let place = settings.redis.server.text
        switch error {
        case _ where error.isRefusal: self = .refused("\(place): \(RedisRefusal.fault(error, settings).line)")
        case .socket(.tls(.untrusted)): self = .failed("\(place): \(error); check redis_ca_path and redis_tls_name")
        case .reply, .notMaster, .socket(.tls): self = .failed("\(place): \(error)")
        default: self = .unavailable("\(place): \(error)")
        }
    }

    static func refused(_ settings: Settings, _ faults: [String]) -> ProbeError {
        .refused("\(settings.redis.server.text): \(faults.joined(separator: "; "))")
    }
}

extension QueueSettings.Server {
    /// The address for messages.
    var text: String {
        switch self {
        case .tcp(let host, let port): Endpoint.tcp(host: host, port: port).description
        case .unix(let path): Endpoint.unix(path: path).description
        case .sentinels(let sentinels, let master):
            "master \(master.printable) from Sentinel at \(sentinels.map(\.description).joined(separator: ", "))"
        }
    }
}

extension Array where Element: Equatable {
    /// Each once, in the order of the first of each.
    var unique: [Element] { reduce(into: []) { if !$0.contains($1) { $0.append($1) } } }
}

/// The checks of Redis in `check`.
enum RedisProbe {
    static func run(_ settings: Settings) throws(ProbeError) -> String {
        var client = try RedisAccess.open(settings)
        let rights: [UserRights]
        let wrong: [SettingsError]
        let product: String?
        let prefixed: [String]
        do throws(RedisError) {
            product = try ServerInfo.read(&client)?.product
            wrong = try KeyTypes(allOf: settings).faults(&client)
            rights = try RedisAccess.rights(&client, settings)
            prefixed = try PrefixedLists.hints(&client, settings)
        } catch {
            throw ProbeError(error, of: settings)
        }
        let crossing = rights.compactMap(\.crossing).map { RedisRefusal.crossing($0, settings).line }
        let faults = wrong.map(\.line) + rights.flatMap(\.faults).unique + crossing.unique
        let shortage = rights.lazy.compactMap(\.shortage).first.map {
            "\($0) No producer can push; expected a larger maxmemory"
        }
        guard faults.isEmpty else { throw .refused(settings, faults + [shortage].compactMap(\.self)) }
        if let shortage { throw .failed("\(settings.redis.server.text): \(shortage)") }
        let server = ["ok", settings.redis.server.text, product?.printable].compactMap(\.self).joined(separator: ", ")
        return ([server] + rights.flatMap(\.remarks).unique + prefixed).joined(separator: "; ")
    }
}

/// Finds lists with the prefix of a framework, `laravel_database_apns_queue` for `apns_queue`, where the list of the settings is
/// empty.
enum PrefixedLists {
    /// Steps of SCAN, and keys of each: a large database is not searched to its end.
    private static let mostSteps = 100
    private static let keysPerStep = 1000

    static func hints(_ client: inout RedisClient, _ settings: Settings) throws(RedisError) -> [String] {
        do throws(RedisError) {
            var hints: [String] = []
            for list in settings.lists where try client.command(["LLEN", list]).integer == 0 {
                guard let other = try prefixed(list, &client) else { continue }
                let count = try client.command(["LLEN", other]).integer ?? 0
                hints.append(
                    "the list \"\(list)\" is empty, and \"\(other)\" has \(Int(count).counted("job")): does the producer's "
                        + "library add a prefix? Then set redis_queue_key to \"\(other)\"")
            }
            return hints
        } catch {
            // A user without the right to search, or a server without SCAN, gets no hint.
            if case .reply = error { return [] }
            throw error
        }
    }

    private static func prefixed(_ list: String, _ client: inout RedisClient) throws(RedisError) -> String? {
        let special: Set<Character> = ["*", "?", "[", "]", "\\", "^"]
        let pattern = "?*" + list.map { special.contains($0) ? "\\\($0)" : "\($0)" }.joined()
        var cursor = "0"
        for _ in 0..<mostSteps {
            let reply = try client.command([
                "SCAN", cursor, "MATCH", pattern, "COUNT", "\(keysPerStep)", "TYPE", "list",
            ])
            guard let parts = reply.items, parts.count == 2, let next = parts[0].text else { return nil }
            let names = (parts[1].items ?? []).compactMap(\.text).filter { name in
                let mark = name.dropLast(list.count).last
                return !name.contains(":gapless:") && (mark == "_" || mark == ":" || mark == "-" || mark == "." || mark == "/")
            }
            if let name = names.min() { return name }
            if next == "0" { return nil }
            cursor = next
        }
        return nil
    }
}

/// The reason why a service cannot be used with these settings.
enum ProbeError: Error, CustomStringConvertible {
    /// It does not respond: the settings may be right.
    case unavailable(String)
    /// It responds but cannot serve now: TLS fails, or its memory is full.
    case failed(String)
    /// It responds and refuses the settings.
    case refused(String)

    var isOurs: Bool {
        if case .refused = self { true } else { false }
    }

    var description: String {
        switch self {
        case .unavailable(let why): "no response: \(why.printable)"
        case .failed(let why): "failed: \(why.printable)"
        case .refused(let why): "refused: \(why.printable)"
        }
    }
}

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
