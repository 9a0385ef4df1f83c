import Glibc
import Harness
@testable import RedisQueue

/// A real redis-server with a clock that stands still between two events. All runs of a process use it, one after the other.
final class RedisHost {
    private let clock: StillClock
    private let server: RedisServer
    private let wire: RedisWire
    private(set) var client: RedisClient
    private var time: Int64 = 0

    init() throws {
        clock = try StillClock(microseconds: 1_700_000_000_000_000)
        server = try RedisServer(environment: clock.environment)
        wire = try RedisWire(path: server.socketPath)
        client = try RedisClient(settings: QueueSettings(list: "none", server: .unix(path: server.socketPath)))
    }

    func settings(list: String) -> QueueSettings { QueueSettings(list: list, server: .unix(path: server.socketPath)) }

    /// - Parameter microseconds: since 1970.
    func setTime(_ microseconds: Int64) {
        if microseconds == time { return }
        time = microseconds
        clock.set(microseconds: microseconds)
    }

    func run(_ bytes: [UInt8], replies: Int) throws -> [RedisReply] { try wire.run(bytes, replies: replies) }

    @discardableResult
    func run(_ words: String...) throws -> RedisReply { try wire.run(words) }

    func run(_ words: [String]) throws -> RedisReply { try wire.run(words) }

    struct Snapshot {
        fileprivate var dumps: [(key: String, bytes: [UInt8])] = []
    }

    func save() throws -> Snapshot {
        var snapshot = Snapshot()
        for key in try wire.run(["KEYS", "*"]).items?.compactMap(\.text).sorted() ?? [] {
            if let bytes = try wire.run(["DUMP", key]).bytes { snapshot.dumps.append((key, bytes)) }
        }
        return snapshot
    }

    func restore(_ snapshot: Snapshot) throws {
        try wire.run(["FLUSHALL"])
        for (key, bytes) in snapshot.dumps {
            var arguments = Arguments(["RESTORE", key, "0"])
            arguments.append(bytes)
            var command: [UInt8] = []
            command.appendCommand(arguments)
            _ = try wire.run(command, replies: 1)
        }
    }

    func pause(_ keys: Keys, for pause: Duration) throws {
        _ = try PauseList(keys).pause(.list, for: pause, details: [], &client)
    }

    func status(list: String) throws -> QueueStatus { try QueueStatus.read(&client, Keys(list: list)) }
}

/// The side of the server of one connection.
final class RedisPeer {
    let worker: Int
    private let world: World
    private let redis: SimulatedRedis
    private var requests: [RedisLink.Request] = []
    /// A blocking command waits for a job.
    private(set) var isBlocked = false
    private var isClosed = false
    private var waits = 0
    var reply: ([RedisReply]) -> Void = { _ in }

    init(_ world: World, _ redis: SimulatedRedis, worker: Int) { (self.world, self.redis, self.worker) = (world, redis, worker) }

    func receive(_ new: [RedisLink.Request]) {
        if isClosed { return }
        if world.time < redis.busyUntil {
            return world.at(redis.busyUntil) { [self] in receive(new) }
        }
        requests += new
        if !isBlocked { process() }
    }

    func close() {
        isClosed = true
        requests = []
        if isBlocked { redis.waiting.removeAll { $0 === self } }
        isBlocked = false
    }

    private func process() {
        var replies: [RedisReply] = []
        while !requests.isEmpty, !isBlocked {
            if requests[0].call == .wait {
                guard let head = redis.peek() else {
                    block()
                    break
                }
                requests.removeFirst()
                replies.append(head)
                world.note(.waitEnded, worker, 1)
            } else {
                let end = requests.firstIndex { $0.call == .wait } ?? requests.count
                let part = Array(requests[..<end])
                requests.removeFirst(end)
                replies += redis.execute(part, worker: worker)
            }
        }
        if !replies.isEmpty { reply(replies) }
    }

    private func block() {
        isBlocked = true
        waits += 1
        redis.waiting.append(self)
        let own = waits
        world.after(Int64(CallEncoder.waitSeconds) * .second) { [self] in
            guard isBlocked, own == waits else { return }
            redis.waiting.removeAll { $0 === self }
            unblock(.null)
        }
    }

    /// The blocking command ends, and those behind it run.
    func unblock(_ head: RedisReply) {
        isBlocked = false
        requests.removeFirst()
        world.note(.waitEnded, worker, head == .null ? 0 : 1)
        reply([head])
        process()
    }
}

/// A blocking connection to a redis-server: commands out, all their replies in.
final class RedisWire {
    private let socket: CInt
    private var reader = ReplyReader()
    private var buffer = [UInt8](repeating: 0, count: 256 << 10)

    init(path: String) throws {
        socket = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        if status != 0 { throw HarnessError("cannot connect to \(path): errno \(errno)") }
    }

    deinit { close(socket) }

    /// Runs commands that are written in the Redis protocol.
    func run(_ bytes: [UInt8], replies count: Int) throws -> [RedisReply] {
        var written = 0
        while written < bytes.count {
            let done = bytes.withUnsafeBytes { write(socket, $0.baseAddress! + written, bytes.count - written) }
            if done <= 0 { throw HarnessError("redis-server has closed the connection: errno \(errno)") }
            written += done
        }
        var replies: [RedisReply] = []
        while replies.count < count {
            if let reply = try reader.next() {
                replies.append(reply)
                continue
            }
            let done = read(socket, &buffer, buffer.count)
            if done <= 0 { throw HarnessError("redis-server has closed the connection: errno \(errno)") }
            reader.feed(buffer, count: done)
        }
        return replies
    }

    @discardableResult
    func run(_ words: [String]) throws -> RedisReply {
        var bytes: [UInt8] = []
        bytes.appendCommand(Arguments(words))
        return try run(bytes, replies: 1)[0]
    }
}
