import Platform
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
    static func connect(_ settings: Settings) throws(ProbeError) -> RedisClient {
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
