import Harness
import Platform

@testable import RedisQueue

/// A redis-server that runs one command at a time, in the order that the model chooses, and that can return to an earlier state.
final class ModelRedis {
    private let server: RedisServer
    private var connection: RedisConnection<Void>
    private var client: RedisClient
    private var dump: [(key: String, bytes: [UInt8])] = []
    private(set) var commands = 0

    init() throws {
        server = try RedisServer()
        client = try RedisClient(settings: server.settings())
        let endpoint = Endpoint.unix(path: server.socketPath)
        connection = try RedisConnection<Void>(
            to: AddressLookup.inPlace(endpoint).get()[0], of: endpoint, tls: nil, timeout: .seconds(60), now: .now)
    }

    var settings: QueueSettings { server.settings() }

    /// Runs one command that is written in the Redis protocol.
    func run(_ bytes: [UInt8]) throws(RedisError) -> RedisReply {
        commands += 1
        connection.send((), now: .now) { $0 += bytes }
        var poller = Poller()
        while true {
            try connection.flush(now: .now)
            poller.reset()
            connection.addInterest(to: &poller)
            poller.wait(until: connection.deadline)
            try connection.receive(poller, now: .now)
            if let incoming = connection.next() { return incoming.reply }
        }
    }

    @discardableResult
    func run(_ words: String...) throws(RedisError) -> RedisReply {
        try run(Arguments(words))
    }

    private func run(_ arguments: Arguments) throws(RedisError) -> RedisReply {
        var bytes: [UInt8] = []
        bytes.appendCommand(arguments)
        return try run(bytes)
    }

    func status() throws -> QueueStatus { try QueueStatus.read(&client, Keys(list: "jobs")) }

    /// All keys, sorted.
    func keys() throws(RedisError) -> [String] { try run("KEYS", "*").items?.compactMap(\.text).sorted() ?? [] }

    // MARK: Time travel

    func save() throws(RedisError) {
        dump = []
        for key in try keys() {
            if let bytes = try run("DUMP", key).bytes { dump.append((key, bytes)) }
        }
    }

    /// Returns to the saved state.
    func restore() throws(RedisError) {
        try run("FLUSHALL")
        for (key, bytes) in dump {
            var arguments = Arguments(["RESTORE", key, "0"])
            arguments.append(bytes)
            _ = try run(arguments)
        }
    }
}
