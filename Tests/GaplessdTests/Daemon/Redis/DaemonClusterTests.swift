import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Redis Cluster", .blocking)
struct DaemonClusterTests {
    private func settings(_ cluster: ClusterStage, _ lists: [String], seed: Int = 0, _ changes: [String: String?] = [:])
        -> [String: String?]
    {
        [
            "redis_socket_path": nil, "redis_host": "\"127.0.0.1\"", "redis_port": String(cluster.nodes[seed].port),
            "redis_queue_key": "[\(lists.map { "\"\($0)\"" }.joined(separator: ", "))]",
        ].merging(changes) { $1 }
    }

    private func client(_ cluster: ClusterStage, node: Int = 0) throws -> RedisClient {
        try RedisClient(settings: QueueSettings(list: "none", server: .tcp(host: "127.0.0.1", port: cluster.nodes[node].port)))
    }

    /// Pushes jobs with `gaplessd enqueue`.
    private func enqueue(_ tokens: Range<Int>, to list: String, _ settings: String, _ stage: Stage) throws {
        try File.write(tokens.map { pushJob(deviceToken($0)) + "\n" }.joined(), to: stage.folder.file("jobs"))
        let call = try Call(["enqueue", settings, "--list", list, stage.folder.file("jobs")])
        #expect(call.output == "\(tokens.count) jobs pushed to \(list)\n", "\(call.errors)")
    }

    private func push(_ tokens: Range<Int>, to list: String, _ client: inout RedisClient) throws {
        for start in stride(from: tokens.lowerBound, to: tokens.upperBound, by: 500) {
            let jobs = (start..<min(start + 500, tokens.upperBound)).map { pushJob(deviceToken($0)) }
            _ = try client.command(["RPUSH", list] + jobs)
        }
    }

    @Test func `the daemon and every command find lists on several nodes from any node`() throws {
        let cluster = try ClusterStage(masters: 2)
        let stage = try Stage()
        let (here, there) = (try cluster.list("here", in: 0...8191), try cluster.list("there", in: 8192...16383))
        let path = try stage.write(settings(cluster, [there, here], ["retry_delays": "[0.1]"]))
        try enqueue(0..<500, to: here, path, stage)
        try enqueue(1000..<1500, to: there, path, stage)
        let before = try Call(["status", path])
        #expect(before.output.ranges(of: "backlog     500").count == 2, "\(before.output) \(before.errors)")
        // A retry and a dead letter on each node.
        for number in [0, 1000] {
            stage.simulator.plan(token: deviceToken(number), answers: [.usual(503), .usual(200)])
            stage.simulator.plan(token: deviceToken(number + 1), answers: [.usual(410)])
        }
        let daemon = try DaemonProcess(settings: path, folder: TemporaryFolder())
        #expect(stage.accepts(998), "\(daemon.standardError)")
        let isDrained = try waitUntil(atMost: .seconds(30)) {
            var client = try client(cluster)
            return try [here, there].allSatisfy { try QueueStatus.read(&client, Keys(list: $0)).counters[.sent] == 499 }
        }
        #expect(isDrained)
        #expect(!(daemon.standardError + daemon.standardOutput).contains("CROSSSLOT"))
        #expect(!daemon.standardError.contains("MOVED"), "\(daemon.standardError)")
        let audit = try Call(["audit", path])
        #expect(audit.output.ranges(of: "balances").count == 2, "\(audit.output) \(audit.errors)")
        #expect(try Call(["dead", path, "list"]).output.ranges(of: "410 Unregistered").count == 4)
        #expect(try Call(["dead", path, "requeue"]).output.contains("2 requeued"))
        #expect(stage.accepts(1000))
        let check = try Call(["check", path])
        #expect(check.status == 0, "\(check.errors)")
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `the daemon follows a slot to another node`() throws {
        let cluster = try ClusterStage(masters: 2)
        let stage = try Stage()
        stage.simulator.behave { $0.script.latency = .milliseconds(5)...(.milliseconds(20)) }
        let list = try cluster.list("jobs", in: 0...8191)
        var client = try client(cluster)
        try push(0..<3000, to: list, &client)
        let daemon = try stage.start(settings(cluster, [list], ["apns_max_concurrent_streams": "50"]))
        #expect(stage.accepts(300))
        try cluster.moveSlot(of: list, from: 0, to: 1)
        #expect(stage.accepts(3000, atMost: .seconds(60)), "\(daemon.standardError)")
        let isSettled = try waitUntil(atMost: .seconds(30)) {
            try QueueStatus.read(&client, Keys(list: list)).counters[.sent] == 3000
        }
        #expect(isSettled)
        let status = try QueueStatus.read(&client, Keys(list: list))
        #expect(status.unexplained == 0)
        #expect(status.counters[.maybeDuplicate] == 0)
        #expect(stage.simulator.ledger.entries.count == 3000, "no push is a duplicate")
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `during a migration single commands follow ASK, and the daemon waits and logs it`() throws {
        let cluster = try ClusterStage(masters: 2)
        let stage = try Stage()
        let list = try cluster.list("jobs", in: 0...8191)
        let slot = String(try cluster.ask(0, "CLUSTER", "KEYSLOT", list).integer ?? 0)
        try cluster.ask(1, "CLUSTER", "SETSLOT", slot, "IMPORTING", cluster.nodes[0].id)
        try cluster.ask(0, "CLUSTER", "SETSLOT", slot, "MIGRATING", cluster.nodes[1].id)
        let path = try stage.write(settings(cluster, [list]))
        try enqueue(0..<50, to: list, path, stage)
        let daemon = try DaemonProcess(settings: path, folder: TemporaryFolder())
        #expect(daemon.says("the list's slot is on its way to another node of the cluster"), "\(daemon.standardError)")
        #expect(stage.simulator.totals.requests == 0)
        for node in [1, 0] { try cluster.ask(node, "CLUSTER", "SETSLOT", slot, "NODE", cluster.nodes[1].id) }
        #expect(stage.accepts(50), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
        #expect(stage.simulator.ledger.entries.count == 50)
    }

    @Test func `the daemon follows a killed node to its replica, also if the settings name only that node`() throws {
        let cluster = try ClusterStage(masters: 2, hasReplica: true)
        let stage = try Stage()
        stage.simulator.behave { $0.script.latency = .milliseconds(5)...(.milliseconds(20)) }
        let list = try cluster.list("jobs", in: 0...8191)
        var client = try client(cluster)
        try push(0..<2000, to: list, &client)
        let isInStep = try waitUntil(atMost: .seconds(60)) {
            var client = try self.client(cluster)
            _ = try client.command(["SET", "{\(list)}:step", "1"])
            return try client.command(["WAIT", "1", "1000"]).integer == 1
        }
        #expect(isInStep)
        _ = try client.command(["DEL", "{\(list)}:step"])
        let daemon = try stage.start(settings(cluster, [list], ["apns_max_concurrent_streams": "50"]))
        #expect(stage.accepts(300))
        cluster.nodes[0].server.kill()
        #expect(daemon.says("Redis: "))
        try cluster.ask(2, "CLUSTER", "FAILOVER", "TAKEOVER")
        #expect(stage.accepts(2000, atMost: .seconds(90)), "\(daemon.standardError)")
        let isSettled = try waitUntil(atMost: .seconds(60)) {
            var client = try self.client(cluster, node: 1)
            let status = try QueueStatus.read(&client, Keys(list: list))
            return status.backlog + status.inFlight + status.recovered == 0 && status.unexplained == 0
        }
        #expect(isSettled, "\(daemon.standardError)")
        #expect(Set(stage.simulator.ledger.entries.map(\.token)).count == 2000)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a cluster with TLS is used with TLS, and every node is verified`() throws {
        let secure = try SecureRedis()
        let cluster = try ClusterStage(masters: 2, secure: secure)
        let stage = try Stage()
        let lists = [try cluster.list("here", in: 0...8191), try cluster.list("there", in: 8192...16383)]
        let path = try stage.write(
            settings(cluster, lists).merging(
                secure.settings(["redis_host": "\"127.0.0.1\"", "redis_port": String(cluster.nodes[0].port)])
            ) { $1 })
        try enqueue(0..<300, to: lists[0], path, stage)
        try enqueue(1000..<1300, to: lists[1], path, stage)
        let daemon = try DaemonProcess(settings: path, folder: TemporaryFolder())
        #expect(stage.accepts(600), "\(daemon.standardError)")
        let check = try Call(["check", path])
        #expect(check.status == 0, "\(check.errors)")
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a results key in another slot and a database other than 0 are faults that name the expected value`() throws {
        let cluster = try ClusterStage(masters: 1)
        let stage = try Stage()
        let crossing = settings(cluster, ["jobs"], ["redis_results_key": "\"results\""])
        let daemon = try stage.start(crossing)
        #expect(daemon.exitStatus() == 78)
        let sentence = #"expected a name with the list's own {tag}, such as "{apns_queue}:results""#
        #expect(daemon.standardError.contains("CROSSSLOT") && daemon.standardError.contains(sentence), "\(daemon.standardError)")
        let check = try Call(["check", try stage.write(crossing)])
        #expect(check.status == 78)
        #expect(check.errors.contains(sentence), "\(check.errors)")
        for list in ["p}q", "{}x"] {
            let braces = try stage.start(settings(cluster, [list]))
            #expect(braces.exitStatus() == 78)
            #expect(
                braces.standardError.contains("redis_queue_key: the keys of \"\(list)\" are not in one hash slot: CROSSSLOT"),
                "\(braces.standardError)")
        }
        let database = try stage.start(settings(cluster, ["jobs"], ["redis_db": "1"]))
        #expect(database.exitStatus() == 78)
        #expect(database.standardError.contains("SELECT is not allowed in cluster mode"))
        let right = try stage.start(settings(cluster, ["jobs"], ["redis_results_key": "\"{jobs}:results\""]))
        var client = try client(cluster)
        try push(0..<10, to: "jobs", &client)
        #expect(stage.accepts(10), "\(right.standardError)")
        let isWritten = try waitUntil { try client.command(["XLEN", "{jobs}:results"]).integer == 10 }
        #expect(isWritten)
        #expect(right.stop()?.status == 0)
    }
}
