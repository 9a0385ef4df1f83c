public import APNSSimulator
import Glibc
public import JSONBytes
public import RedisQueue

/// A Redis, an APNs simulator, and the settings for the daemons between them.
public final class Stage {
    public static let list = "beta_apns_queue"
    public static let topic = "com.example.app"

    public let folder: TemporaryFolder
    /// The Redis server in use; `turn(to:)` replaces it.
    public private(set) var redis: RedisServer
    /// The APNs simulator: in this process, or in its own.
    public let service: any PushService
    /// The proxy between the daemon and Redis, if the stage has proxies.
    public let redisProxy: FaultProxy?
    /// The proxy between the daemon and the simulator, if the stage has proxies.
    public let serviceProxy: FaultProxy?
    public let keys = Keys(list: Stage.list)
    /// The address of Redis, past any proxy.
    public private(set) var server: QueueSettings
    private var client: RedisClient
    private let defaults: [String: String]
    private var daemonNames: [String] = []

    /// - Parameters:
    ///   - server: a running Redis.
    ///   - proxySeed: puts a proxy in front of Redis and of the simulator; the seed of their random faults.
    ///   - defaults: settings, as raw JSON by key, of every file that this stage writes.
    ///   - service: starts the simulator.
    public init(
        on server: RedisServer, proxySeed: UInt64? = nil, defaults: [String: String] = [:],
        service: (TemporaryFolder) throws -> any PushService
    ) throws {
        (redis, self.defaults, folder) = (server, defaults, TemporaryFolder())
        let service = try service(folder)
        self.service = service
        redisProxy = try proxySeed.map { try FaultProxy(toUnixSocket: server.socketPath, seed: $0) }
        serviceProxy = try proxySeed.map { try FaultProxy(toPort: service.port, seed: $0 &+ 1) }
        self.server = QueueSettings(list: Stage.list, server: .unix(path: server.socketPath))
        self.server.timeout = .seconds(30)
        client = try RedisClient(settings: self.server)
    }

    /// Starts an `apns-simulator` in its own process.
    ///
    /// - Parameter pinned: the processor that Redis and the simulator share, so that the daemon has another one alone.
    public convenience init(simulator arguments: [String], ledger: Bool = true, pinned: Int? = nil) throws {
        let redis = try RedisServer()
        try self.init(on: redis) { folder in
            let simulator = try SimulatorProcess(folder: folder, ledger: ledger, arguments)
            for process in [redis.process, simulator.process] { if let pinned { process.pin(to: pinned) } }
            return simulator
        }
    }

    /// The simulator in this process. The stage must have been made with one.
    public var simulator: Simulator { hosted.simulator }

    /// The credentials that the simulator in this process accepts.
    public var credentials: Credentials { hosted.credentials }

    private var hosted: HostedSimulator {
        guard let hosted = service as? HostedSimulator else { preconditionFailure("the simulator runs in its own process") }
        return hosted
    }

    /// Writes a settings file and returns its path.
    ///
    /// - Parameter changes: raw JSON values by key; `nil` removes a key.
    @discardableResult
    public func write(_ changes: [String: String?] = [:], name: String = "settings.json") throws -> String {
        var values = [
            "apns_server": "\"localhost:\(serviceProxy?.port ?? service.port)\"", "apns_ca_path": "\"credentials/ca.pem\"",
            "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0001.p8\"", "apns_auth_key_id": "\"SIMKEY0001\"",
            "apns_team_id": "\"SIMTEAM001\"", "apns_topic": "\"\(Stage.topic)\"", "redis_queue_key": "\"\(Stage.list)\"",
        ]
        values["redis_port"] = redisProxy.map { String($0.port) }
        if redisProxy == nil { values["redis_socket_path"] = "\"\(redis.socketPath)\"" }
        values.merge(defaults) { $1 }
        for (key, value) in changes { values[key] = value }
        let lines = values.sorted { $0.key < $1.key }.map { "    \"\($0.key)\": \($0.value)" }
        try File.write("{\n" + lines.joined(separator: ",\n") + "\n}\n", to: folder.file(name))
        return folder.file(name)
    }

    /// Starts a daemon; the parameters are those of `DaemonProcess`.
    public func start(
        _ settings: String, name: String = "daemon", program: String? = nil, under wrapper: [String] = [],
        log: ChildProcess.Output? = nil, pinned: Int? = nil
    ) throws -> DaemonProcess {
        if !daemonNames.contains(name) { daemonNames.append(name) }
        let daemon = try DaemonProcess(
            settings: settings, folder: folder, name: name, program: program, under: wrapper, log: log)
        if let pinned { daemon.process.pin(to: pinned) }
        return daemon
    }

    /// Starts a call of gaplessd with `settings.json`, such as `["dead", "requeue"]`. Both outputs are appended to a file.
    public func startCall(_ words: [String], output: String) throws -> ChildProcess {
        let output = ChildProcess.Output.file(folder.file(output))
        return try ChildProcess(
            BuiltProducts.path("gaplessd"), [words[0], folder.file("settings.json")] + words.dropFirst(),
            standardOutput: output, standardError: output)
    }

    /// The standard errors of all daemons.
    public var standardErrors: String { daemonNames.map { File.read(folder.file("\($0).err")) }.joined() }

    /// The path of the simulator's ledger file.
    public var ledgerPath: String { folder.file("ledger") }

    /// The requests so far, read from the ledger file; complete after the stop of the simulator.
    public var ledger: Ledger { Ledger(File.read(ledgerPath)) }

    // MARK: Redis

    /// Pushes jobs in batches, and returns when Redis has acknowledged all of them.
    public func push(
        _ jobs: some Sequence<String>, to list: String = Stage.list, with command: String = "RPUSH"
    ) throws {
        var batch: [String] = []
        func flush() throws {
            if batch.isEmpty { return }
            _ = try client.command([command, list] + batch)
            batch.removeAll(keepingCapacity: true)
        }
        for job in jobs {
            batch.append(job)
            if batch.count == 500 { try flush() }
        }
        try flush()
    }

    public func push(_ job: String, to list: String = Stage.list) throws { try push([job], to: list) }

    /// Pushes one element of arbitrary bytes.
    public func push(bytes: [UInt8]) throws {
        _ = try client.command([Array("RPUSH".utf8), Array(Stage.list.utf8), bytes])
    }

    /// Runs one command, past any proxy.
    @discardableResult
    public func command(_ words: [String]) throws -> RedisReply { try client.command(words) }

    @discardableResult
    public func command(_ words: String...) throws -> RedisReply { try client.command(words) }

    /// Runs all commands in one transaction, and returns the reply to each.
    public func atOnce(_ commands: [[String]]) throws -> [RedisReply] {
        let replies = try client.pipeline([["MULTI"]] + commands + [["EXEC"]])
        guard let items = replies.last?.items, items.count == commands.count else {
            throw HarnessError("the transaction failed: \(replies)")
        }
        return items
    }

    /// Cuts every connection to Redis except the stage's own.
    public func killClients() throws { try command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }

    /// Opens a new connection, after a restart of Redis.
    public func reconnect() throws { client = try RedisClient(settings: server) }

    /// Kills Redis, and starts it again from its files.
    public func restartRedis() throws {
        redis.kill()
        try redis.restart()
        try reconnect()
    }

    /// Uses another Redis from now on; the proxy leads new connections to it.
    public func turn(to server: RedisServer, leadingProxy: Bool = true) throws {
        redis = server
        self.server.server = .unix(path: server.socketPath)
        if leadingProxy { try redisProxy?.lead(toUnixSocket: server.socketPath) }
        try reconnect()
    }

    /// Uses this Redis user for this connection and all later ones.
    public func logIn(as user: String, password: String) throws {
        (server.username, server.password) = (user, password)
        try reconnect()
    }

    /// Reads the state of a list, over a new connection if the old one broke.
    public func status(of list: String = Stage.list) throws -> QueueStatus {
        try retrying { try QueueStatus.read(&client, Keys(list: list)) }
    }

    /// Reads the counter of sent jobs with one small command, over a new connection if the old one broke.
    public func sent() throws -> Int {
        try retrying { try command("HGET", keys.stats, "sent").text.flatMap { Int($0) } ?? 0 }
    }

    public func counter(_ counter: Counter) throws -> Int { try status().counter(counter) }

    private func retrying<Value>(_ body: () throws -> Value) throws -> Value {
        do {
            return try body()
        } catch {
            try reconnect()
            return try body()
        }
    }

    /// Waits until no job is waiting, in flight or delayed. Returns false at the limit.
    public func drains(atMost limit: Duration = .seconds(30)) throws -> Bool {
        try waitUntil(atMost: limit) { try status().isDrained }
    }

    /// Returns the waiting jobs, head first: those of the list, and then those of its side lists.
    public func backlog(of list: String = Stage.list) throws -> [String] {
        let keys = Keys(list: list)
        let apps = try command("HKEYS", keys.asides).items?.compactMap(\.text) ?? []
        return try ([list] + apps.sorted().map(keys.aside)).flatMap { key in
            try command("LRANGE", key, "0", "-1").items?.compactMap(\.text) ?? []
        }
    }

    public func deadLetters(of list: String = Stage.list) throws -> [JSONValue] { try records(Keys(list: list).dead) }

    public func feedback() throws -> [JSONValue] { try records(keys.feedback) }

    private func records(_ key: String) throws -> [JSONValue] {
        try (command("LRANGE", key, "0", "-1").items ?? []).compactMap(\.bytes).map { try JSONValue.parse($0) }
    }

    /// The device tokens of all dead letters, and the number of dead letters by reason.
    public func deadLetterCounts() throws -> (tokens: [String], reasons: [String: Int]) {
        let letters = try deadLetters()
        let reasons = letters.map { $0["reason"]?.stringValue ?? "none" }
        return (letters.compactMap { $0["token"]?.stringValue }, Dictionary(reasons.map { ($0, 1) }, uniquingKeysWith: +))
    }

    /// Returns the jobs of all dead letters, byte for byte.
    public func deadLetterJobs() throws -> [[UInt8]] {
        try deadLetters().map { letter in
            if let text = letter["job"]?.stringValue { return Array(text.utf8) }
            if let field = letter["job_field"]?.stringValue { return try command("HGET", keys.large, field).bytes ?? [] }
            return letter["job_base64"]?.stringValue.flatMap { Base64.decode(Array($0.utf8)) } ?? []
        }
    }

    /// Returns the keys of the list that must be gone when all jobs are settled and every daemon has stopped.
    public func leftoverKeys() throws -> [String] {
        let records = [keys.dead, keys.large, keys.feedback, keys.providerTokens, keys.accepted, keys.apps]
        let kept = [keys.workers, keys.stats] + records
        // The slot of a scope without jobs stays for a while.
        let slots = try command("EXISTS", keys.slots) == .integer(1) ? [keys.slots, keys.paced, keys.asides] : []
        return try command("KEYS", "*").items?.compactMap(\.text)
            .filter {
                // The figures of a campaign stay for a day.
                !(kept + slots + [keys.campaigns]).contains($0) && !$0.hasPrefix(keys.scope(""))
                    && !$0.hasPrefix(keys.campaign(""))
            } ?? []
    }
}

/// A function of Lua, for the beginning of a script: `held(pattern, out)` adds the jobs in flight of the workers whose keys of
/// chunks match a pattern. With `areRead`, only those of claims that a worker has certainly read: it has settled one of their
/// jobs.
public let heldJobsInLua = """
    local function held(pattern, out, areRead)
      for _, key in ipairs(redis.call('KEYS', pattern)) do
        local entries = redis.call('TYPE', key).ok == 'hash' and redis.call('HGETALL', key) or {}
        for i = 1, #entries, 2 do
          local isRead = not areRead or string.find(entries[i + 1], '0', 3, true)
          for place, job in ipairs(isRead and redis.call('LRANGE', key .. ':' .. entries[i], 0, -1) or {}) do
            if string.sub(entries[i + 1], place + 2, place + 2) == '1' then out[#out + 1] = job end
          end
        end
      end
      return out
    end

    """

/// Returns a device token of 64 hex digits, unique to this number.
public func deviceToken(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "ab", count: 24) + String(repeating: "0", count: 16 - digits.count) + digits
}

extension RedisReply {
    /// Returns the number behind these characters at the beginning of a line of INFO, such as `used_memory:`.
    public func number(after mark: String) -> Int? {
        let line = text?.split(whereSeparator: \.isNewline).first { $0.hasPrefix(mark) }
        return line.flatMap { Int($0.dropFirst(mark.utf8.count).prefix(while: \.isNumber)) }
    }
}

extension QueueStatus {
    /// Whether no job is waiting, in flight or delayed.
    public var isDrained: Bool {
        backlog == 0 && inFlight == 0 && delayed == 0 && recovered == 0 && campaigns.allSatisfy { $0.waiting == 0 }
    }

    public func counter(_ counter: Counter) -> Int { Int(counters[counter, default: 0]) }
}
