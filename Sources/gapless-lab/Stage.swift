import Glibc
import Harness
import JSONBytes
import RedisQueue

/// A Redis, a simulator and the settings for a daemon between them.
final class Stage {
    static let list = "lab_queue"

    let folder = TemporaryFolder()
    let redis: RedisServer
    let simulator: SimulatorProcess
    private var client: RedisClient
    private var clientSettings: QueueSettings
    let keys: Keys

    /// - Parameters:
    ///   - pinned: the processor that Redis and the simulator share, so that the daemon has another to itself.
    init(simulator arguments: [String], ledger: Bool = true, redis options: [String] = [], pinned: Int? = nil) throws {
        redis = try RedisServer(options: options)
        simulator = try SimulatorProcess(folder: folder, ledger: ledger, arguments)
        for process in [redis.process, simulator.process] {
            if let pinned { pin(process.pid, to: pinned) }
        }
        clientSettings = QueueSettings(list: Stage.list, server: .unix(path: redis.socketPath))
        clientSettings.timeout = .seconds(30)
        client = try RedisClient(settings: clientSettings)
        keys = Keys(list: Stage.list)
    }

    /// Writes a settings file; `changes` are raw JSON values by key, `nil` takes a key out.
    func settings(_ changes: [String: String?] = [:], name: String = "settings.json") throws -> String {
        var values: [String: String] = [
            "apns_server": "\"localhost:\(simulator.port)\"",
            "apns_ca_path": "\"credentials/ca.pem\"",
            "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0001.p8\"",
            "apns_auth_key_id": "\"SIMKEY0001\"",
            "apns_team_id": "\"SIMTEAM001\"",
            "apns_topic": "\"com.example.app\"",
            "redis_socket_path": "\"\(redis.socketPath)\"",
            "redis_queue_key": "\"\(Stage.list)\"",
        ]
        for (key, value) in changes { values[key] = value }
        let lines = values.sorted { $0.key < $1.key }.map { "    \"\($0.key)\": \($0.value)" }
        let path = folder.file(name)
        try File.write("{\n" + lines.joined(separator: ",\n") + "\n}\n", to: path)
        return path
    }

    func start(_ settings: String, pinned: Int? = nil) throws -> DaemonProcess {
        let daemon = try DaemonProcess(settings: settings, folder: folder)
        if let pinned { pin(daemon.process.pid, to: pinned) }
        return daemon
    }

    /// RPUSHes jobs in batches; returns once Redis has acknowledged all of them.
    func push(_ jobs: some Sequence<String>) throws {
        var batch: [String] = []
        func flush() throws {
            if batch.isEmpty { return }
            _ = try client.command(["RPUSH", Stage.list] + batch)
            batch.removeAll(keepingCapacity: true)
        }
        for job in jobs {
            batch.append(job)
            if batch.count == 500 { try flush() }
        }
        try flush()
    }

    /// RPUSHes one element of any bytes.
    func push(bytes: [UInt8]) throws {
        _ = try client.command([Array("RPUSH".utf8), Array(Stage.list.utf8), bytes])
    }

    /// A new connection, after Redis was started anew.
    func reconnect() throws {
        client = try RedisClient(settings: clientSettings)
    }

    /// Cuts every connection to Redis but our own.
    func killClients() throws {
        _ = try client.command(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
    }

    func status() throws -> QueueStatus { try QueueStatus.read(&client, keys) }

    /// How many are sent by the counter in Redis: one small command, so that whoever measures disturbs little.
    func sent() throws -> Int {
        try client.command(["HGET", keys.stats, "sent"]).text.flatMap { Int($0) } ?? 0
    }

    /// Waits until nothing waits, flies or is delayed; whether it came about.
    func awaitDrained(atMost limit: Duration, _ progress: (QueueStatus) -> Void = { _ in }) throws -> Bool {
        try waitUntil(atMost: limit) {
            let status = try self.status()
            progress(status)
            return status.isDrained
        }
    }

    /// The device tokens of all dead letters, and how many there are of each reason.
    func deadLetters() throws -> (tokens: [String], reasons: [String: Int]) {
        let letters = try records()
        let reasons = letters.reduce(into: [:]) { counts, letter in
            counts[letter["reason"]?.stringValue ?? "none", default: 0] += 1
        }
        return (letters.compactMap { $0["token"]?.stringValue }, reasons)
    }

    /// The jobs of all dead letters, byte for byte.
    func buriedJobs() throws -> [[UInt8]] {
        try records().map { letter in
            if let text = letter["job"]?.stringValue { return Array(text.utf8) }
            return letter["job_base64"]?.stringValue.flatMap { Base64.decode(Array($0.utf8)) } ?? []
        }
    }

    private func records() throws -> [JSONValue] {
        let letters = try client.command(["LRANGE", keys.dead, "0", "-1"]).items ?? []
        return try letters.compactMap(\.bytes).map { try JSONValue.parse($0) }
    }
}

/// Keeps a process on one processor. Ignored where there is only one.
func pin(_ pid: CInt, to processor: Int) {
    guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > processor else { return }
    _ = try? ChildProcess("taskset", ["-apc", String(processor), String(pid)]).wait()
}

/// A device token of 64 hex digits that only this number has.
func deviceToken(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "ab", count: 24) + String(repeating: "0", count: 16 - digits.count) + digits
}

extension QueueStatus {
    /// Nothing waits, flies or is delayed.
    var isDrained: Bool { backlog == 0 && inFlight == 0 && delayed == 0 && recovered == 0 }

    func counter(_ counter: Counter) -> Int { Int(counters[counter, default: 0]) }
}
