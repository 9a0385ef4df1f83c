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
        _ = try PauseList(keys).pause(app: nil, for: pause, details: [], &client)
    }

    func status(list: String) throws -> QueueStatus { try QueueStatus.read(&client, Keys(list: list)) }
}
