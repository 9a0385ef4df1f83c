import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("A Redis that cannot serve for a while", .blocking)
struct DaemonTroubleTests {
    enum Trouble: CaseIterable {
        case noReplicas, busy, replica, masterDown, clusterDown

        /// Options of redis-server.
        var options: [String] {
            switch self {
            case .clusterDown: ["--port", String(FreePort.pick()), "--cluster-enabled", "yes"]
            case .masterDown: ["--replica-serve-stale-data", "no"]
            default: []
            }
        }

        /// The texts in the log; any of them may come first.
        var words: [String] {
            switch self {
            case .noReplicas: ["NOREPLICAS"]
            case .busy: ["BUSY"]
            case .replica: ["READONLY", "closed by Redis"]
            case .masterDown: ["MASTERDOWN", "READONLY", "closed by Redis"]
            case .clusterDown: ["CLUSTERDOWN"]
            }
        }
    }

    private func begin(_ trouble: Trouble, _ stage: Stage) throws -> ChildProcess? {
        switch trouble {
        case .noReplicas: try stage.command("CONFIG", "SET", "min-replicas-to-write", "1")
        case .replica, .masterDown: try stage.command("REPLICAOF", "127.0.0.1", "1")
        case .clusterDown: try stage.command("CLUSTER", "DELSLOTSRANGE", "0", "16383")
        case .busy:
            try stage.command("CONFIG", "SET", "lua-time-limit", "20")
            return try ChildProcess("redis-cli", ["-s", stage.redis.socketPath, "EVAL", "while true do end", "0"])
        }
        return nil
    }

    private func end(_ trouble: Trouble, _ stage: Stage) throws {
        switch trouble {
        case .noReplicas: try stage.command("CONFIG", "SET", "min-replicas-to-write", "0")
        case .replica, .masterDown: try stage.command("REPLICAOF", "NO", "ONE")
        case .clusterDown: try stage.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        case .busy: try stage.command("SCRIPT", "KILL")
        }
    }

    @Test(arguments: Trouble.allCases)
    func `the log names it, no job is lost or duplicated, and the daemon continues afterwards`(trouble: Trouble) throws {
        let stage = try Stage(redis: trouble.options)
        if trouble == .clusterDown {
            try stage.command("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
            #expect(try waitUntil { try stage.command("CLUSTER", "INFO").text?.contains("cluster_state:ok") == true })
        }
        let daemon = try stage.startOpen()
        stage.simulator.behave { $0.script.latency = .milliseconds(300)...(.milliseconds(300)) }
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try waitUntil { try stage.status().inFlight == 100 })
        let helper = try begin(trouble, stage)
        let isNamed = waitUntil(atMost: .seconds(20)) { trouble.words.contains(where: daemon.standardError.contains) }
        #expect(isNamed, "\(daemon.standardError)")
        #expect(stage.accepts(101), "the pushes in flight get their responses meanwhile")
        try end(trouble, stage)
        // A killed script ends after a moment.
        #expect(waitUntil { (try? stage.command("PING")) != nil })
        try stage.push((100..<150).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(151), "\(daemon.standardError)")
        #expect(stage.simulator.ledger.entries.count == 151, "no push is a duplicate")
        let status = try stage.status()
        #expect(status.counters[.sent] == 151)
        #expect(status.counters[.maybeDuplicate] == 0)
        #expect(status.unexplained == 0)
        #expect(daemon.stop()?.status == 0)
        withExtendedLifetime(helper) {}
    }

    @Test func `check rejects a replica`() throws {
        let stage = try Stage()
        try stage.command("REPLICAOF", "127.0.0.1", "1")
        let check = try Call(["check", try stage.write()])
        #expect(check.status == 69)
        #expect(check.errors.contains("READONLY You can't write against a read only replica."), "\(check.errors)")
    }
}

@Suite("A resolver that hangs", .blocking)
struct DaemonResolverTests {
    private let port = FreePort.pick()

    private func stage() throws -> Stage { try Stage(redis: ["--port", "\(port)", "--bind", "127.0.0.1"]) }

    private func start(_ stage: Stage, _ names: HangingNames) throws -> DaemonProcess {
        try stage.start(
            ["redis_socket_path": nil, "redis_host": "\"localhost\"", "redis_port": "\(port)"], environment: names.environment)
    }

    @Test func `delays no exit of a daemon that has not reached Redis`() throws {
        let (stage, names) = (try stage(), try HangingNames())
        try stage.push(pushJob("0a"))
        names.hang()
        let daemon = try start(stage, names)
        #expect(daemon.says("looking up localhost"))
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().backlog == 1)
    }

    @Test func `rejects a reload with a new name in metrics_listen, and jobs continue`() throws {
        let (stage, names) = (try Stage(), try HangingNames())
        let daemon = try stage.start(environment: names.environment)
        try stage.open(daemon)
        names.hang()
        try stage.write(["metrics_listen": "\"localhost:0\""])
        #expect(daemon.reloads(saying: "metrics_listen: cannot listen at localhost:0: looking up localhost: timed out"))
        #expect(daemon.says("Reload failed: "))
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(2))
        names.release()
        #expect(daemon.reloads())
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `does not prevent a reconnect to the last known address`() throws {
        let (stage, names) = (try stage(), try HangingNames())
        let daemon = try start(stage, names)
        try stage.open(daemon)
        names.hang()
        try stage.killClients()
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(101))
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0)
    }
}
