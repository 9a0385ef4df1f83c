public import APNSSimulator
import Glibc
internal import JSONBytes
public import RedisQueue

/// A Redis, a simulator and the settings for a daemon between them.
public final class Stage {
    public static let list = "lab_queue"

    public let folder = TemporaryFolder()
    /// The one that serves; see `turn(to:)`.
    public private(set) var redis: RedisServer
    public let simulator: any PushService
    /// What stands between the daemon and Redis, where it was asked for.
    public let redisProxy: FaultProxy?
    /// What stands between the daemon and the simulator, where it was asked for.
    public let simulatorProxy: FaultProxy?
    private var client: RedisClient
    private var clientSettings: QueueSettings
    public let keys: Keys
    private var daemonNames: [String] = []

    /// - Parameters:
    ///   - arguments: of a simulator in a process of its own.
    ///   - behaviour: how a simulator in our own process begins, in place of that.
    ///   - remembers: whether that one keeps every request with its connection.
    ///   - server: a Redis that runs already, in place of one with these options.
    ///   - proxySeed: puts a proxy before Redis and one before the simulator, whose chances are drawn from this seed.
    ///   - pinned: the processor that Redis and the simulator share, so that the daemon has another to itself.
    public init(
        simulator arguments: [String] = [], hosting behaviour: Behaviour? = nil, remembers: Bool = false, ledger: Bool = true,
        redis options: [String] = [], on server: RedisServer? = nil, proxySeed: UInt64? = nil, pinned: Int? = nil
    ) throws {
        redis = try server ?? RedisServer(options: options)
        if let behaviour {
            simulator = try HostedSimulator(folder: folder, behaviour, remembers: remembers)
        } else {
            simulator = try SimulatorProcess(folder: folder, ledger: ledger, arguments)
        }
        for process in [redis.process, (simulator as? SimulatorProcess)?.process] {
            if let pinned, let process { pin(process.pid, to: pinned) }
        }
        redisProxy = try proxySeed.map { [redis] in try FaultProxy(toUnixSocket: redis.socketPath, seed: $0) }
        simulatorProxy = try proxySeed.map { [simulator] in try FaultProxy(toPort: simulator.port, seed: $0 &+ 1) }
        clientSettings = QueueSettings(list: Stage.list, server: .unix(path: redis.socketPath))
        clientSettings.timeout = .seconds(30)
        client = try RedisClient(settings: clientSettings)
        keys = Keys(list: Stage.list)
    }

    /// The simulator that takes orders: only where it was asked for.
    public var hosted: Simulator { (simulator as! HostedSimulator).simulator }

    /// Writes a settings file; `changes` are raw JSON values by key, `nil` takes a key out.
    public func settings(_ changes: [String: String?] = [:], name: String = "settings.json") throws -> String {
        var values: [String: String] = [
            "apns_server": "\"localhost:\(simulatorProxy?.port ?? simulator.port)\"",
            "apns_ca_path": "\"credentials/ca.pem\"",
            "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0001.p8\"",
            "apns_auth_key_id": "\"SIMKEY0001\"",
            "apns_team_id": "\"SIMTEAM001\"",
            "apns_topic": "\"com.example.app\"",
            "redis_queue_key": "\"\(Stage.list)\"",
        ]
        if let redisProxy {
            values["redis_port"] = String(redisProxy.port)
        } else {
            values["redis_socket_path"] = "\"\(redis.socketPath)\""
        }
        for (key, value) in changes { values[key] = value }
        let lines = values.sorted { $0.key < $1.key }.map { "    \"\($0.key)\": \($0.value)" }
        let path = folder.file(name)
        try File.write("{\n" + lines.joined(separator: ",\n") + "\n}\n", to: path)
        return path
    }

    /// - Parameters:
    ///   - name: its outputs go into `NAME.out` and `NAME.err` of the folder.
    ///   - wrapper: a command to run it under.
    ///   - log: where both outputs go, if not there.
    public func start(
        _ settings: String, name: String = "daemon", under wrapper: [String] = [], log: ChildProcess.Output? = nil,
        pinned: Int? = nil
    ) throws -> DaemonProcess {
        if !daemonNames.contains(name) { daemonNames.append(name) }
        let daemon = try DaemonProcess(settings: settings, folder: folder, name: name, under: wrapper, log: log)
        if let pinned { pin(daemon.process.pid, to: pinned) }
        return daemon
    }

    /// Pushes jobs in batches; returns once Redis has acknowledged all of them.
    public func push(_ jobs: some Sequence<String>, with command: String = "RPUSH") throws {
        var batch: [String] = []
        func flush() throws {
            if batch.isEmpty { return }
            _ = try client.command([command, Stage.list] + batch)
            batch.removeAll(keepingCapacity: true)
        }
        for job in jobs {
            batch.append(job)
            if batch.count == 500 { try flush() }
        }
        try flush()
    }

    /// RPUSHes one element of any bytes.
    public func push(bytes: [UInt8]) throws {
        _ = try client.command([Array("RPUSH".utf8), Array(Stage.list.utf8), bytes])
    }

    /// A new connection, after Redis was started anew.
    public func reconnect() throws {
        client = try RedisClient(settings: clientSettings)
    }

    /// From now on this one is the Redis that we speak to, and that the proxy leads new connections to.
    public func turn(to server: RedisServer, leadingProxy: Bool = true) throws {
        redis = server
        clientSettings.server = .unix(path: server.socketPath)
        if leadingProxy { try redisProxy?.lead(toUnixSocket: server.socketPath) }
        try reconnect()
    }

    /// From now on we are this user, in this connection and all later ones.
    public func logIn(as user: String, password: String) throws {
        (clientSettings.username, clientSettings.password) = (user, password)
        try reconnect()
    }

    /// Runs all of these commands at one instant, and returns the replies to each.
    public func atOnce(_ commands: [[String]]) throws -> [RedisReply] {
        let all = [["MULTI"]] + commands + [["EXEC"]]
        let replies = try client.pipeline(all)
        guard let items = replies.last?.items, items.count == commands.count else {
            throw ChildProcess.Failure(description: "MULTI came to nothing: \(replies)")
        }
        return items
    }

    /// Where the simulator writes what it saw.
    public var ledgerPath: String { folder.file("ledger") }

    /// Cuts every connection to Redis but our own.
    public func killClients() throws {
        _ = try client.command(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
    }

    /// Where Redis is, past any proxy.
    public var server: QueueSettings { clientSettings }

    /// As `status`, with a new connection where the old one broke.
    public func statusAnyhow() throws -> QueueStatus { try anyhow { try status() } }

    /// As `sent`, with a new connection where the old one broke.
    public func sentAnyhow() throws -> Int { try anyhow { try sent() } }

    private func anyhow<Value>(_ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch {
            try reconnect()
            return try body()
        }
    }

    /// Runs one command, past any proxy.
    @discardableResult
    public func command(_ words: [String]) throws -> RedisReply { try client.command(words) }

    /// Keys of the list that should be gone once all is settled and every daemon has stopped.
    public func leftoverKeys() throws -> [String] {
        let stays = [keys.workers, keys.stats, keys.dead, keys.feedback]
        return try client.command(["KEYS", "*"]).items?.compactMap(\.text).filter { !stays.contains($0) } ?? []
    }

    /// What all daemons wrote to standard error.
    public var standardErrors: String {
        daemonNames.map { File.read(folder.file("\($0).err")) }.joined()
    }

    public func status() throws -> QueueStatus { try QueueStatus.read(&client, keys) }

    /// How many are sent by the counter in Redis: one small command, so that whoever measures disturbs little.
    public func sent() throws -> Int {
        try client.command(["HGET", keys.stats, "sent"]).text.flatMap { Int($0) } ?? 0
    }

    /// Waits until nothing waits, flies or is delayed; whether it came about.
    public func awaitDrained(atMost limit: Duration, _ progress: (QueueStatus) -> Void = { _ in }) throws -> Bool {
        try waitUntil(atMost: limit) {
            let status = try self.status()
            progress(status)
            return status.isDrained
        }
    }

    /// The device tokens of all dead letters, and how many there are of each reason.
    public func deadLetters() throws -> (tokens: [String], reasons: [String: Int]) {
        let letters = try records()
        let reasons = letters.reduce(into: [:]) { counts, letter in
            counts[letter["reason"]?.stringValue ?? "none", default: 0] += 1
        }
        return (letters.compactMap { $0["token"]?.stringValue }, reasons)
    }

    /// The jobs of all dead letters, byte for byte.
    public func buriedJobs() throws -> [[UInt8]] {
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
public func pin(_ pid: CInt, to processor: Int) {
    guard sysconf(CInt(_SC_NPROCESSORS_ONLN)) > processor else { return }
    _ = try? ChildProcess("taskset", ["-apc", String(processor), String(pid)]).wait()
}

/// A device token of 64 hex digits that only this number has.
public func deviceToken(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "ab", count: 24) + String(repeating: "0", count: 16 - digits.count) + digits
}

extension QueueStatus {
    /// Nothing waits, flies or is delayed.
    public var isDrained: Bool { backlog == 0 && inFlight == 0 && delayed == 0 && recovered == 0 }

    public func counter(_ counter: Counter) -> Int { Int(counters[counter, default: 0]) }
}
