import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue

/// A Redis, a simulator, and settings for the daemons that run between them: each test has its own, gone with it.
final class DaemonStage {
    static let list = "beta_apns_queue"
    static let topic = "com.example.app"

    let folder = TemporaryFolder()
    let redis: RedisServer
    let simulator: Simulator
    let credentials: Credentials
    let keys = Keys(list: DaemonStage.list)
    private var client: RedisClient
    private var clientSettings: QueueSettings

    /// - Parameters:
    ///   - options: of redis-server, as on its command line.
    ///   - validity: of the client certificate, in seconds from now.
    ///   - password: the one that such options ask of clients.
    ///   - configure: changes the simulator before it starts; its ledger keeps bodies.
    init(
        redis options: [String] = [], topics: [String] = [DaemonStage.topic], validity: ClosedRange<Int>? = nil,
        configure: (inout Simulator.Configuration) -> Void = { _ in }
    ) throws {
        redis = try RedisServer(options: options)
        var request = Credentials.Request(topics: topics)
        if let validity { request.clientValidity = validity }
        credentials = try Credentials.make(request)
        try credentials.write(to: folder.file("credentials"))
        var configuration = Simulator.Configuration(credentials: credentials)
        configuration.ledgerDetail = .requests(keepsBodies: true)
        configure(&configuration)
        simulator = try Simulator(configuration)
        clientSettings = QueueSettings(list: DaemonStage.list, server: .unix(path: redis.socketPath))
        clientSettings.timeout = .seconds(30)
        client = try RedisClient(settings: clientSettings)
    }

    // MARK: Daemons

    /// What every settings file of ours holds unless a test says otherwise, as raw JSON by key.
    private var usualSettings: [String: String] {
        [
            "apns_server": "\"localhost:\(simulator.port)\"", "apns_ca_path": "\"credentials/ca.pem\"",
            "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0001.p8\"", "apns_auth_key_id": "\"SIMKEY0001\"",
            "apns_team_id": "\"SIMTEAM001\"", "apns_topic": "\"\(DaemonStage.topic)\"",
            "apns_dial_backoff_min": "0.01", "apns_dial_backoff_max": "0.1",
            "redis_socket_path": "\"\(redis.socketPath)\"", "redis_queue_key": "\"\(DaemonStage.list)\"",
            "retry_delays": "[0.01]",
        ]
    }

    /// Writes a settings file; `changes` are raw JSON values by key, `nil` takes a key out.
    @discardableResult
    func write(_ changes: [String: String?] = [:], name: String = "settings.json") throws -> String {
        var values = usualSettings
        for (key, value) in changes { values[key] = value }
        let path = folder.file(name)
        try File.write("{" + values.map { "\"\($0.key)\": \($0.value)" }.joined(separator: ",\n") + "}", to: path)
        return path
    }

    /// Starts a daemon whose outputs are its own, and its state as well unless told otherwise.
    func start(
        _ changes: [String: String?] = [:], name: String = "settings.json", stateFolder: String? = nil
    ) throws -> DaemonProcess {
        try DaemonProcess(settings: write(changes, name: name), folder: TemporaryFolder(), stateFolder: stateFolder)
    }

    // MARK: Redis

    @discardableResult
    func redis(_ words: String...) throws -> RedisReply { try client.command(words) }

    func push(_ jobs: [String], to list: String = DaemonStage.list) throws {
        for start in stride(from: 0, to: jobs.count, by: 500) {
            _ = try client.command(["RPUSH", list] + jobs[start..<min(start + 500, jobs.count)])
        }
    }

    func push(_ job: String, to list: String = DaemonStage.list) throws { try push([job], to: list) }

    /// One element of any bytes.
    func push(bytes: [UInt8]) throws {
        _ = try client.command([Array("RPUSH".utf8), Array(DaemonStage.list.utf8), bytes])
    }

    /// A new connection, after Redis was started anew.
    func reconnect() throws { client = try RedisClient(settings: clientSettings) }

    func status(of list: String = DaemonStage.list) throws -> QueueStatus {
        try QueueStatus.read(&client, Keys(list: list))
    }

    func counter(_ counter: Counter) throws -> Int64 { try status().counters[counter, default: 0] }

    /// Waits until nothing waits, flies or is delayed; whether it came about.
    func drains(atMost limit: Duration = .seconds(30)) throws -> Bool {
        try waitUntil(atMost: limit) {
            let status = try self.status()
            return status.backlog + status.inFlight + status.delayed + status.recovered == 0
        }
    }

    /// The backlog as it stands, head first.
    func backlog(of list: String = DaemonStage.list) throws -> [String] {
        try client.command(["LRANGE", list, "0", "-1"]).items?.compactMap(\.text) ?? []
    }

    /// The jobs that wait for their time, as they will go back to the list.
    func delayed() throws -> [String] {
        let members = try client.command(["ZRANGE", keys.delayed, "0", "-1"]).items?.compactMap(\.text) ?? []
        return members.map { String($0[$0.index(after: $0.firstIndex(of: "|")!)...]) }
    }

    func deadLetters(of list: String = DaemonStage.list) throws -> [JSONValue] { try records(Keys(list: list).dead) }

    func feedback() throws -> [JSONValue] { try records(keys.feedback) }

    private func records(_ key: String) throws -> [JSONValue] {
        let records = try client.command(["LRANGE", key, "0", "-1"]).items ?? []
        return try records.compactMap(\.bytes).map { try JSONValue.parse($0) }
    }

    // MARK: APNs

    /// Waits until APNs has taken so many pushes in all; whether it came about.
    func accepts(_ count: Int, atMost limit: Duration = .seconds(30)) -> Bool {
        waitUntil(atMost: limit) { simulator.totals.accepted >= count }
    }

    /// Lets the app have its first acceptance, so that from then on tokens are judged for what they are.
    func open(_ daemon: DaemonProcess) throws {
        try push(pushJob(deviceToken(999_999)))
        _ = try waitUntil { try status().counters[.sent, default: 0] == 1 }
    }
}

/// A device token of 64 hex digits that only this number has.
func deviceToken(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "ab", count: 24) + String(repeating: "0", count: 16 - digits.count) + digits
}

/// A job with these members beside its token and `data`.
func pushJob(_ token: String, _ members: String = "", data: String = #"{"aps":{"alert":"Hi"}}"#) -> String {
    #"{"token":"\#(token)",\#(members.isEmpty ? "" : members + ",")"data":\#(data)}"#
}

extension DaemonProcess {
    /// Waits until either output holds a text; whether it came about.
    func says(_ text: String, atMost limit: Duration = .seconds(15)) -> Bool {
        waitUntil(atMost: limit) { standardError.contains(text) || standardOutput.contains(text) }
    }

    /// The lines of standard error, each stamp as `STAMP`.
    var complaints: [Substring] { LogFixture.withoutStamps(standardError).split(separator: "\n") }

    /// The lines of standard output, each stamp as `STAMP`.
    var reports: [Substring] { LogFixture.withoutStamps(standardOutput).split(separator: "\n") }

    func signal(_ signal: CInt) { process.kill(signal) }

    /// kill -9, and the end of it.
    func crash() {
        process.kill(SIGKILL)
        _ = process.wait()
    }
}

extension JSONValue {
    /// The text of a member.
    func text(_ key: String) -> String? { self[key]?.stringValue }

    /// The number of a member.
    func number(_ key: String) -> Int64? { self[key]?.integerValue }
}

/// Unix seconds. Not time(2), which lags up to a tick behind the clock that Redis reads.
func unixTime() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec)
}
