import Harness
import RedisQueue

extension RedisServer {
    func settings(list: String = "jobs", password: String? = nil) -> QueueSettings {
        QueueSettings(list: list, server: .unix(path: socketPath), password: password)
    }

    /// Runs one command on a connection of its own.
    @discardableResult
    func ask(_ command: String..., password: String? = nil) throws -> RedisReply {
        var client = try client(password: password)
        return try client.command(command)
    }

    /// A connection that waits longer than that of a worker: the machine may be busy.
    func client(password: String? = nil) throws -> RedisClient {
        var settings = settings(password: password)
        settings.timeout = .seconds(30)
        return try RedisClient(settings: settings)
    }

    func push(_ jobs: [String]) throws {
        var client = try client()
        for start in stride(from: 0, to: jobs.count, by: 500) {
            _ = try client.command(["RPUSH", "jobs"] + jobs[start..<min(start + 500, jobs.count)])
        }
    }

    func list(_ key: String) throws -> [String] { try ask("LRANGE", key, "0", "-1").items?.compactMap(\.text) ?? [] }

    func status() throws -> QueueStatus {
        var client = try client()
        return try QueueStatus.read(&client, Keys(list: "jobs"))
    }
}
