import ArgumentParser
import Glibc
import RedisQueue
import Sockets

/// How the one-shot calls reach Redis: every one of them begins by asking whether it lets us in and whether the keys of the lists
/// are lists.
enum RedisAccess {
    /// For a dial, and for an answer.
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

    /// As far as that it lets us in.
    static func connect(_ settings: Settings) throws(ProbeError) -> RedisClient {
        var queue = settings.queues[0]
        queue.timeout = timeout
        let tls = try tls(settings)
        do throws(RedisError) {
            return try RedisClient(settings: queue, tls: tls)
        } catch {
            throw ProbeError(error, of: settings)
        }
    }

    private static func tls(_ settings: Settings) throws(ProbeError) -> TLSContext? {
        do {
            return try settings.redis.tlsContext()
        } catch {
            throw .refused(error.faults.map { "\($0.key): \($0.problem)" }.joined(separator: "; "))
        }
    }

    /// Runs a whole call on one connection. What is wrong with Redis is one sentence on stderr, and the exit status.
    static func run(_ settings: Settings, _ body: (inout RedisClient) throws -> Void) throws {
        do {
            var client = try open(settings)
            try body(&client)
        } catch RedisError.reply(let text) where text.firstRange(of: "WRONGTYPE") != nil {
            throw ProbeError.refused(settings, RedisRefusal.lines(text, settings)).told("redis")
        } catch let error as RedisError {
            throw ProbeError(error, of: settings).told("redis")
        } catch let fault as ProbeError {
            throw fault.told("redis")
        }
    }
}

extension ProbeError {
    init(_ error: RedisError, of settings: Settings) {
        let place = settings.redis.server.text
        if case .reply(let text) = error {
            self =
                error.isRefusal ? .refused("\(place): \(RedisRefusal.fault(text, settings).line)") : .failed("\(place): \(text)")
        } else if case .socket(.tls) = error {
            self = .failed("\(place): \(error)")
        } else {
            self = error.isRefusal ? .refused("\(place): \(error)") : .unavailable("\(place): \(error)")
        }
    }

    static func refused(_ settings: Settings, _ faults: [String]) -> ProbeError {
        .refused("\(settings.redis.server.text): \(faults.joined(separator: "; "))")
    }

    var exitCode: ExitCode { isOurs ? .settingsFault : .serviceUnavailable }

    /// Says it on stderr; what is returned ends the call.
    func told(_ service: String, adding more: String = "") -> ExitCode {
        StandardStreams.print(["\(service): \(self)\(more)"], to: STDERR_FILENO)
        return exitCode
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
