import APNSSimulator
import Clocks
import Glibc
import Harness
import RedisQueue

/// A Redis, a daemon, and a simulator inside this process, whose ledger tells by our own clock when a request was there.
final class LatencyStage {
    let redis: RedisServer
    let simulator: Simulator
    let daemon: DaemonProcess
    var client: RedisClient
    private let folder = TemporaryFolder()
    /// From the start of the process until its first push was at the simulator.
    private(set) var startToFirstPush = Duration.zero

    init(settings changes: [String: String] = [:]) throws {
        redis = try RedisServer()
        let credentials = try Credentials.make(Credentials.Request())
        try credentials.write(to: folder.file("credentials"))
        var configuration = Simulator.Configuration(credentials: credentials)
        configuration.behaviour.tokenStreamLimit = 1000
        simulator = try Simulator(configuration)
        var server = QueueSettings(list: Stage.list, server: .unix(path: redis.socketPath))
        server.timeout = .seconds(30)
        client = try RedisClient(settings: server)
        var values = [
            "apns_server": "\"localhost:\(simulator.port)\"", "apns_ca_path": "\"credentials/ca.pem\"",
            "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0001.p8\"", "apns_auth_key_id": "\"SIMKEY0001\"",
            "apns_team_id": "\"SIMTEAM001\"", "apns_topic": "\"com.example.app\"",
            "redis_socket_path": "\"\(redis.socketPath)\"", "redis_queue_key": "\"\(Stage.list)\"",
        ]
        for (key, value) in changes { values[key] = value }
        let path = folder.file("settings.json")
        try File.write("{" + values.map { "\"\($0.key)\": \($0.value)" }.joined(separator: ",\n") + "}", to: path)
        try LatencyStage.push([BenchJob.text(0)], &client)
        let start = Instant.now
        daemon = try DaemonProcess(settings: path, folder: folder)
        let first = try arrival(of: deviceToken(0))
        startToFirstPush = first - start
    }

    /// One RPUSH.
    func push(_ jobs: [String], to list: String = Stage.list) throws { try LatencyStage.push(jobs, to: list, &client) }

    private static func push(_ jobs: [String], to list: String = Stage.list, _ client: inout RedisClient) throws {
        _ = try client.command(["RPUSH", list] + jobs)
    }

    /// When the first request for a token was at the simulator; waits for it.
    func arrival(of token: String) throws -> Instant {
        guard waitUntil({ !simulator.ledger.requests(for: token).isEmpty }) else {
            throw LabError(description: "no push of \(token):\n" + daemon.standardError)
        }
        return simulator.ledger.requests(for: token)[0].time
    }

    /// How many commands Redis has carried out so far, this question included.
    func commands() throws -> Int {
        let text = try client.command(["INFO", "stats"]).text ?? ""
        let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("total_commands_processed:") }
        return line.flatMap { $0.split(separator: ":").last }.flatMap { Int($0) } ?? 0
    }
}
