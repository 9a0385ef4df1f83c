import RedisQueue
import Sockets
import Threads

/// Asks Redis, on one connection, whether it lets us in and whether the keys of the lists are lists (RESP2).
enum RedisProbe {
    static func run(_ settings: Settings) throws(ProbeFault) -> String {
        var connection = try RedisProbeConnection(settings.redis.server)
        if let password = settings.redis.password {
            _ = try connection.call(["AUTH"] + (settings.redis.username.map { [$0] } ?? []) + [password.text])
        }
        if settings.redis.database != 0 { _ = try connection.call(["SELECT", String(settings.redis.database)]) }
        _ = try connection.call(["PING"])
        for list in settings.lists {
            let type = try connection.call(["TYPE", list])
            guard type == "list" || type == "none" else {
                throw .refused("the key \(list) is a \(type), not a list")
            }
        }
        return "ok, \(settings.redis.server.text)"
    }
}

/// A connection that waits for each answer; every answer here is one line.
private struct RedisProbeConnection: ~Copyable {
    /// For a dial, and for an answer.
    private static let timeout = Duration.seconds(3)

    private let socket: Socket
    private let name: String
    private var received: [UInt8] = []

    init(_ server: QueueSettings.Server) throws(ProbeFault) {
        name = server.text
        var problem = "no address"
        do {
            for address in try server.addresses() {
                if let socket = Self.dial(address, &problem) {
                    self.socket = socket
                    return
                }
            }
        } catch {
            problem = error.description
        }
        throw .unavailable("\(name): \(problem)")
    }

    private static func dial(_ address: SocketAddress, _ problem: inout String) -> Socket? {
        do {
            let socket = try Socket(connectingTo: address)
            let isReady = wait(for: .write, on: socket, until: .now + timeout)
            guard let code = isReady ? socket.connectError() : nil else {
                if isReady { return socket }
                problem = "no connection within \(timeout)"
                return nil
            }
            problem = SocketError.system("connect", errno: code).description
        } catch {
            problem = error.description
        }
        return nil
    }

    private static func wait(
        for readiness: Poller.Readiness, on socket: borrowing Socket, until deadline: ContinuousClock.Instant
    ) -> Bool {
        var poller = Poller()
        let place = poller.add(socket.descriptor, for: readiness)
        repeat { poller.wait(until: deadline) } while poller.readiness(at: place).isEmpty && .now < deadline
        return !poller.readiness(at: place).isEmpty
    }

    /// A simple string's text. An error of the server's throws: it keeps us out, or it only cannot serve now.
    mutating func call(_ words: [String]) throws(ProbeFault) -> String {
        var command = Array("*\(words.count)\r\n".utf8)
        for word in words { command += Array("$\(word.utf8.count)\r\n\(word)\r\n".utf8) }
        let deadline = ContinuousClock.Instant.now + Self.timeout
        try write(command, until: deadline)
        let answer = try line(until: deadline)
        switch answer.first {
        case "+": return String(answer.dropFirst())
        case "-" where Self.passing.contains(where: answer.dropFirst().hasPrefix): throw .unavailable("\(name): \(answer.dropFirst())")
        case "-": throw .refused("\(name): \(answer.dropFirst())")
        default: throw .unavailable("\(name): no Redis answers so: \(answer)")
        }
    }

    /// What a Redis says that will serve us later.
    private static let passing = ["LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN"]

    private mutating func write(_ bytes: [UInt8], until deadline: ContinuousClock.Instant) throws(ProbeFault) {
        var written = 0
        while written < bytes.count {
            let progress = bytes.withUnsafeBytes { socket.write(UnsafeRawBufferPointer(rebasing: $0[written...])) }
            switch progress {
            case .done(let count): written += count
            case .needsRead, .needsWrite:
                guard Self.wait(for: .write, on: socket, until: deadline) else { throw .unavailable("\(name): it takes nothing") }
            case .closed: throw .unavailable("\(name): closed")
            case .failed(let error): throw .unavailable("\(name): \(error)")
            }
        }
    }

    private mutating func line(until deadline: ContinuousClock.Instant) throws(ProbeFault) -> String {
        while true {
            if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
                defer { received.removeSubrange(...end) }
                return String(decoding: received[..<end].filter { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
            }
            var buffer = [UInt8](repeating: 0, count: 4096)
            switch buffer.withUnsafeMutableBytes({ socket.read(into: $0) }) {
            case .done(let count): received += buffer[..<count]
            case .needsRead, .needsWrite:
                guard received.count < 4096, Self.wait(for: .read, on: socket, until: deadline) else {
                    throw .unavailable("\(name): no answer within \(Self.timeout)")
                }
            case .closed: throw .unavailable("\(name): closed")
            case .failed(let error): throw .unavailable("\(name): \(error)")
            }
        }
    }
}

extension QueueSettings.Server {
    fileprivate func addresses() throws(SocketError) -> [SocketAddress] {
        switch self {
        case .tcp(let host, let port): try SocketAddress.resolve(host: host, port: port)
        case .unix(let path): [try SocketAddress(unixPath: path)]
        }
    }
}
