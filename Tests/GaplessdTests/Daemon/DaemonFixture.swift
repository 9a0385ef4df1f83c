import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

extension Stage {
    /// A stage whose simulator keeps whole requests, and whose daemons retry quickly.
    ///
    /// - Parameters:
    ///   - options: of redis-server, as on its command line.
    ///   - proxySeed: puts proxies in front of Redis and of the simulator.
    ///   - topics: of the client certificate.
    ///   - validity: of the client certificate, in seconds from now.
    ///   - configure: changes the configuration of the simulator.
    convenience init(
        redis options: [String] = [], proxySeed: UInt64? = nil, topics: [String] = [Stage.topic],
        validity: ClosedRange<Int>? = nil,
        configure: (inout Simulator.Configuration) -> Void = { _ in }
    ) throws {
        var request = Credentials.Request(topics: topics)
        if let validity { request.clientValidity = validity }
        try self.init(
            on: RedisServer(options: options), proxySeed: proxySeed,
            defaults: ["apns_dial_backoff_min": "0.01", "apns_dial_backoff_max": "0.1", "retry_delays": "[0.01]"]
        ) { try HostedSimulator(folder: $0, request: request, configure: configure) }
    }

    /// Writes settings and starts a daemon with its own outputs and, by default, its own state. The end of the test stops it.
    @discardableResult
    func start(
        _ changes: [String: String?] = [:], name: String = "settings.json", stateFolder: String? = nil,
        environment: [String: String] = [:], under wrapper: [String] = []
    ) throws -> DaemonProcess {
        let daemon = try DaemonProcess(
            settings: write(changes, name: name), folder: TemporaryFolder(), stateFolder: stateFolder,
            environment: environment, under: wrapper)
        RunningDaemons.current?.add(daemon, of: self)
        return daemon
    }

    /// Returns the delayed jobs, as they will go back to the list.
    func delayed() throws -> [String] {
        let members = try command("ZRANGE", keys.delayed, "0", "-1").items?.compactMap(\.text) ?? []
        return members.map { String($0[$0.index(after: $0.firstIndex(of: "|")!)...]) }
    }

    /// Returns the fields of each entry of the results stream `results`, oldest first.
    func results() throws -> [[String: String]] {
        try (command("XRANGE", "results", "-", "+").items ?? []).map { entry in
            Dictionary(uniqueKeysWithValues: (entry.items?[1].items ?? []).compactMap(\.text).pairs)
        }
    }

    /// Waits until APNs has accepted this many pushes in total. Returns false at the limit.
    func accepts(_ count: Int, atMost limit: Duration = .seconds(60)) -> Bool {
        waitUntil(atMost: limit) { simulator.totals.accepted >= count }
    }

    /// Delivers pushes until a condition holds: each acceptance settles the suspect tokens before it. Returns false at the limit.
    @discardableResult
    func accept(until condition: () throws -> Bool) throws -> Bool {
        var number = 900_000
        return try waitUntil {
            if try condition() { return true }
            if try status().backlog == 0 { try push(pushJob(deviceToken(number))) }
            number += 1
            return false
        }
    }

    /// Waits until APNs has accepted this many pushes in total, and no job is waiting, in flight or delayed.
    func settles(_ count: Int) throws -> Bool { try accepts(count) && drains() }

    /// Starts a daemon and delivers a first push.
    @discardableResult
    func startOpen(_ changes: [String: String?] = [:]) throws -> DaemonProcess {
        let daemon = try start(changes)
        try open(daemon)
        return daemon
    }

    /// Delivers a first push: before it, at most 20 jobs are in flight.
    func open(_ daemon: DaemonProcess) throws {
        try push(pushJob(deviceToken(999_999)))
        _ = try waitUntil(atMost: .seconds(30)) { try counter(.sent) == 1 }
    }
}

/// Settings of an app with the signing key, as JSON.
func appJSON(topic: String?, _ members: String = "", key: String = "SIMKEY0001") -> String {
    let credential = #""apns_auth_key_path": "credentials/AuthKey_\#(key).p8", "apns_auth_key_id": "\#(key)""#
    let topic = topic.map { #", "apns_topic": "\#($0)""# } ?? ""
    return #"{\#(credential), "apns_team_id": "SIMTEAM001"\#(topic)\#(members.isEmpty ? "" : ", " + members)}"#
}

/// Settings of an app with the client certificate, as JSON.
let certificateJSON = #"{"apns_cert_path": "credentials/client.pem", "apns_key_path": "credentials/client-key.pem"}"#

/// Settings without a credential at the top level.
let noCredential: [String: String?] = [
    "apns_auth_key_path": nil, "apns_auth_key_id": nil, "apns_team_id": nil, "apns_topic": nil,
]

/// Returns a stage, by default a new one, and a daemon on it with these settings.
func given(_ changes: [String: String?] = [:], on stage: Stage? = nil) throws -> (stage: Stage, daemon: DaemonProcess) {
    let stage = try stage ?? Stage()
    return (stage, try stage.start(changes))
}

/// The same after a first push.
func givenOpen(_ changes: [String: String?] = [:], on stage: Stage? = nil) throws -> (stage: Stage, daemon: DaemonProcess) {
    let stage = try stage ?? Stage()
    return (stage, try stage.startOpen(changes))
}

/// Returns a job with these members in addition to its token and `data`.
func pushJob(_ token: String, _ members: String = "", data: String = #"{"aps":{"alert":"Hi"}}"#) -> String {
    #"{"token":"\#(token)",\#(members.isEmpty ? "" : members + ",")"data":\#(data)}"#
}

extension DaemonProcess {
    /// Waits until one of the outputs contains a text. Returns false at the limit.
    func says(_ text: String, atMost limit: Duration = .seconds(30)) -> Bool {
        waitUntil(atMost: limit) { standardError.contains(text) || standardOutput.contains(text) }
    }

    /// The lines of standard error, each time stamp replaced by `STAMP`.
    var complaints: [Substring] { LogFixture.withoutStamps(standardError).split(separator: "\n") }

    /// The lines of standard output, each time stamp replaced by `STAMP`.
    var reports: [Substring] { LogFixture.withoutStamps(standardOutput).split(separator: "\n") }

    func signal(_ signal: CInt) { process.kill(signal) }

    /// Sends SIGHUP, and waits until one of the outputs contains a text. Returns false at the limit.
    func reloads(saying text: String = "Reloaded: ") -> Bool {
        process.kill(SIGHUP)
        return says(text)
    }

    /// Waits for the exit, and returns its status. The daemon need not stop with 0.
    func exitStatus() -> CInt? {
        RunningDaemons.current?.remove(self)
        return process.wait(atMost: .seconds(30))?.status
    }

    /// Sends SIGKILL and waits for the exit.
    func crash() {
        process.kill(SIGKILL)
        _ = exitStatus()
    }
}

extension JSONValue {
    func text(_ key: String) -> String? { self[key]?.stringValue }

    func number(_ key: String) -> Int64? { self[key]?.integerValue }
}

/// Returns Unix seconds. time(2) lags up to a tick behind the clock that Redis reads.
func unixTime() -> Int64 {
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    return Int64(now.tv_sec)
}

/// Runs each test on the thread pool for tests that block. Afterwards, each daemon that a stage has started must stop with
/// status 0, unless the test has ended it with `crash` or `exitStatus`.
struct BlockingTrait: SuiteTrait, TestTrait, TestScoping {
    var isRecursive: Bool { true }

    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @concurrent @Sendable () async throws -> Void
    ) async throws {
        try await ThreadPool.shared.run {
            let daemons = RunningDaemons()
            try await RunningDaemons.$current.withValue(daemons) { try await function() }
            daemons.stop(after: test)
        }
    }
}

/// The daemons of one test, with their stages: a daemon needs its Redis and APNs until its end.
final class RunningDaemons: @unchecked Sendable {  // Only the thread of the test uses it.
    @TaskLocal static var current: RunningDaemons?
    private var daemons: [(daemon: DaemonProcess, stage: Stage)] = []

    func add(_ daemon: DaemonProcess, of stage: Stage) { daemons.append((daemon, stage)) }

    func remove(_ daemon: DaemonProcess) { daemons.removeAll { $0.daemon === daemon } }

    fileprivate func stop(after test: Test) {
        for (daemon, _) in daemons {
            #expect(daemon.stop()?.status == 0, "\(daemon.standardError)", sourceLocation: test.sourceLocation)
        }
    }
}

extension Trait where Self == BlockingTrait {
    /// The tests wait for processes.
    static var blocking: Self { Self() }
}

/// Certificates and a port for a Redis with TLS.
struct SecureRedis {
    let folder: TemporaryFolder
    let port = FreePort.pick()

    /// - Parameter serverNames: of the server certificate; `nil` uses the names of this machine.
    init(serverNames: [String]? = nil) throws {
        folder = TemporaryFolder()
        var request = Credentials.Request()
        if let serverNames { request.serverNames = serverNames }
        try Credentials.make(request).write(to: folder.path)
    }

    /// Options of redis-server, which requires a client certificate.
    var options: [String] { ["--tls-port", String(port)] + files }

    private var files: [String] {
        [
            "--tls-cert-file", folder.file("server.pem"), "--tls-key-file", folder.file("server-key.pem"), "--tls-ca-cert-file",
            folder.file("ca.pem"), "--tls-client-cert-file", folder.file("client.pem"), "--tls-client-key-file",
            folder.file("client-key.pem"),
        ]
    }

    /// Options of a cluster node or Sentinel with its own port, which also uses TLS with its peers.
    func options(port: Int, for peers: String) -> [String] { ["--tls-port", String(port), "--\(peers)", "yes"] + files }

    /// Settings, as raw JSON by key.
    var settings: [String: String?] {
        [
            "redis_socket_path": nil, "redis_host": "\"localhost\"", "redis_port": String(port), "redis_tls": "true",
            "redis_ca_path": "\"\(folder.file("ca.pem"))\"", "redis_cert_path": "\"\(folder.file("client.pem"))\"",
            "redis_key_path": "\"\(folder.file("client-key.pem"))\"",
        ]
    }

    func settings(_ changes: [String: String?]) -> [String: String?] { settings.merging(changes) { $1 } }
}

extension [String] {
    /// Options and their values.
    var pairs: [(String, String)] { stride(from: 0, to: count - 1, by: 2).map { (self[$0], self[$0 + 1]) } }
}

/// The nodes of a small Redis Cluster.
final class ClusterStage {
    struct Node {
        let port: Int
        let server: RedisServer
        let id: String
    }

    private(set) var nodes: [Node] = []

    /// - Parameters:
    ///   - masters: the number of masters, which share the slots evenly.
    ///   - hasReplica: adds a replica of the first master.
    ///   - secure: makes all nodes use TLS.
    init(masters: Int, hasReplica: Bool = false, secure: SecureRedis? = nil) throws {
        for _ in 0..<masters + (hasReplica ? 1 : 0) { nodes.append(try ClusterStage.node(secure)) }
        for index in 0..<masters {
            let (first, last) = (16384 * index / masters, 16384 * (index + 1) / masters - 1)
            try ask(index, "CLUSTER", "ADDSLOTSRANGE", String(first), String(last))
            try ask(index, "CLUSTER", "SET-CONFIG-EPOCH", String(index + 1))
        }
        for index in nodes.indices.dropFirst() { try ask(0, "CLUSTER", "MEET", "127.0.0.1", String(nodes[index].port)) }
        if hasReplica {
            _ = waitUntil(atMost: .seconds(60)) { (try? ask(masters, "CLUSTER", "REPLICATE", nodes[0].id)) != nil }
        }
        let isUp = try waitUntil(atMost: .seconds(60)) {
            try nodes.indices.allSatisfy { index in
                let info = try ask(index, "CLUSTER", "INFO").text ?? ""
                return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:\(nodes.count)")
            }
        }
        guard isUp else { throw HarnessError("the cluster did not start") }
    }

    private static func node(_ secure: SecureRedis?) throws -> Node {
        let port = FreePort.pick()
        let way = secure?.options(port: port, for: "tls-cluster") ?? ["--port", String(port)]
        let server = try RedisServer(
            options: way + [
                "--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
                "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0",
            ])
        var client = try RedisClient(settings: QueueSettings(list: "none", server: .unix(path: server.socketPath)))
        return Node(port: port, server: server, id: try client.command(["CLUSTER", "MYID"]).text ?? "")
    }

    /// Sends one command to a node over a new connection, and follows redirections.
    @discardableResult
    func ask(_ node: Int, _ words: String...) throws -> RedisReply {
        var client = try RedisClient(settings: QueueSettings(list: "none", server: .unix(path: nodes[node].server.socketPath)))
        return try client.command(words)
    }

    /// Returns a list name with a slot in this range.
    func list(_ prefix: String, in slots: ClosedRange<Int64>) throws -> String {
        for number in 0..<1000 {
            let name = "\(prefix)\(number)"
            if let slot = try ask(0, "CLUSTER", "KEYSLOT", name).integer, slots.contains(slot) { return name }
        }
        throw HarnessError("no name in these slots")
    }

    /// Moves the slot of a list with all its keys to another node, as `redis-cli --cluster reshard` does.
    func moveSlot(of list: String, from source: Int, to target: Int) throws {
        let slot = String(try ask(source, "CLUSTER", "KEYSLOT", list).integer ?? 0)
        try ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", nodes[source].id)
        try ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodes[target].id)
        while true {
            let keys = try ask(source, "CLUSTER", "GETKEYSINSLOT", slot, "100").items?.compactMap(\.text) ?? []
            if keys.isEmpty { break }
            for key in keys { try ask(source, "MIGRATE", "127.0.0.1", String(nodes[target].port), key, "0", "5000") }
        }
        for node in [target, source] { try ask(node, "CLUSTER", "SETSLOT", slot, "NODE", nodes[target].id) }
    }
}
