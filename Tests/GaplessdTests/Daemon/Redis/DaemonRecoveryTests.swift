import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("Recovery after a crash", .blocking)
struct DaemonRecoveryTests {
    @Test func `the steps of docs/running.md move the lists to another Redis`() throws {
        let options = ["--repl-diskless-sync-delay", "0"]
        let (old, new) = (try RedisServer(options: options, hasPort: true), try RedisServer(options: options, hasPort: true))
        let stage = try Stage(on: old) { try HostedSimulator(folder: $0) }
        stage.simulator.behave { $0.script.latency = .milliseconds(2)...(.milliseconds(5)) }
        let settings = try stage.write(["retry_delays": "[3600]"])
        let daemon = try stage.start(settings)
        try stage.open(daemon)
        stage.simulator.plan(token: deviceToken(1), answers: [.usual(503)])
        stage.simulator.plan(token: deviceToken(2), answers: [.usual(410)])
        try stage.push((0..<2000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(100))
        _ = try new.command(["REPLICAOF", "127.0.0.1", String(try #require(old.port))])
        #expect(try waitUntil { try new.command(["INFO", "replication"]).text?.contains("master_link_status:up") == true })
        #expect(try Call(["pause", settings, "--reason", "moving"]).status == 0)
        #expect(try waitUntil { try stage.status().inFlight == 0 })
        #expect(daemon.stop()?.status == 0)
        // The replica has everything.
        let offset = { (server: RedisServer, field: String) throws -> Substring? in
            let lines = try server.command(["INFO", "replication"]).text?.split(whereSeparator: \.isNewline) ?? []
            return lines.first { $0.hasPrefix("\(field):") }?.split(separator: ":").last
        }
        #expect(try waitUntil { try offset(new, "slave_repl_offset") == offset(old, "master_repl_offset") })
        let before = try stage.status()
        _ = try new.command(["REPLICAOF", "NO", "ONE"])
        old.kill()
        try stage.turn(to: new)
        let after = try stage.status()
        #expect(after.counters == before.counters && after.backlog == before.backlog && after.pauses.count == 1)
        let moved = try stage.write(["retry_delays": "[3600]"])
        #expect(try Call(["audit", moved]).output.contains("balances\n"))
        let next = try stage.start(moved, name: "next")
        try stage.push(pushJob(deviceToken(5000)))
        #expect(next.says("Connected to Redis"))
        #expect(try Call(["resume", moved]).status == 0)
        #expect(try waitUntil { try stage.status().counter(.sent) == 2000 })
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.status().delayed == 1 && stage.status().dead == 1)
        #expect(try Call(["audit", moved]).output.hasSuffix("balances\n"))
        #expect(next.stop()?.status == 0)
    }

    @Test func `audit knows of a rollback and of an emptied Redis while no daemon ran`() throws {
        let stage = try Stage()
        let (state, settings) = (stage.folder.file("state"), try stage.write(name: "calls.json"))
        let daemon = try stage.start(stateFolder: state)
        try stage.open(daemon)
        try stage.command("SAVE")
        try stage.push((0..<20).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(20))
        #expect(try waitUntil { try stage.status().inFlight == 0 && stage.status().backlog == 0 })
        let claimed = try stage.status().counter(.claimed)
        // The daemon keeps the figures each second.
        let figures = { folderEntries(state).map { File.read("\(state)/\($0)") }.joined() }
        #expect(waitUntil { figures().contains("\"claimed\": \(claimed),") }, "\(figures())")
        #expect(daemon.stop()?.status == 0)
        try stage.restartRedis()
        let known = try Call(["audit", settings], environment: ["STATE_DIRECTORY": state])
        #expect(known.output.contains("\nRedis was put back to an earlier state after "), "\(known.output)")
        #expect(known.output.hasSuffix(", as this host remembers: these figures lack what it has lost\n"))
        #expect(!known.output.contains("balances") && known.status == 0)
        // Another host learns it from the next daemon.
        #expect(try Call(["audit", settings]).output.hasSuffix("balances\n"))
        let next = try stage.start(stateFolder: state)
        #expect(next.says("Redis was put back to an earlier state after "))
        let told = try Call(["audit", settings])
        #expect(told.output.hasSuffix(", as a worker found: these figures lack what it has lost\n"), "\(told.output)")
        #expect(next.stop()?.status == 0)
        try stage.command("FLUSHALL")
        let emptied = try Call(["audit", settings], environment: ["STATE_DIRECTORY": state])
        #expect(emptied.output.contains("\nRedis was emptied after "), "\(emptied.output)")
        #expect(!emptied.output.contains("balances"))
        let unknown = try Call(["audit", settings])
        #expect(unknown.output.hasSuffix("\nNo worker has registered here since Redis was empty: there are no figures yet.\n"))
        #expect(unknown.status == 0)
    }

    @Test func `after kill -9 the next process takes over the jobs in flight at once`() throws {
        let stage = try Stage()
        let first = try stage.startOpen()
        stage.simulator.behave { $0.script.latency = .milliseconds(5)...(.milliseconds(15)) }
        try stage.push((0..<3000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(1000))
        first.crash()
        let left = try stage.status()
        #expect(left.inFlight > 0)
        let second = try stage.start()
        #expect(second.says("Took over \(left.inFlight) jobs of the dead worker "))
        #expect(waitUntil(atMost: .seconds(60)) { stage.simulator.ledger.acceptedCounts.count == 3001 })
        #expect(try stage.drains())
        let extra = stage.simulator.totals.accepted - 3001
        #expect(extra <= left.inFlight)
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0, "a crash spends no retry")
        #expect(try stage.counter(.recovered) == left.inFlight)
        #expect(try stage.status().unexplained == 0)
        let stats = try stage.command("HVALS", stage.keys.stats).items?.compactMap(\.text) ?? []
        #expect(!stats.isEmpty && stats.allSatisfy { Int64($0) != nil }, "a hash of counters holds nothing but numbers: \(stats)")
    }

    @Test func `a retry survives the process that wrote it`() throws {
        let stage = try Stage()
        stage.simulator.plan(token: "0a", answers: [.usual(503)])
        let first = try stage.start(["retry_delays": "[1]"])
        try stage.push(pushJob("0a"))
        #expect(try waitUntil { try stage.status().delayed == 1 })
        first.crash()
        try stage.start()
        #expect(stage.accepts(1))
        #expect(stage.simulator.ledger.requests(for: "0a").count == 2)
    }

    @Test func `the other daemon takes over after the lease, and the fenced one does not settle its jobs`() throws {
        let stage = try Stage()
        let settings = ["redis_lease": "1", "apns_request_timeout": "5", "pool_size": "1", "retry_delays": "[60]"]
        let first = try stage.start(settings, name: "first.json")
        try stage.open(first)
        // The process is stopped, not killed, so that only the lease reveals it.
        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        try stage.push((0..<50).map { pushJob(deviceToken($0)) })
        #expect(waitUntil { stage.simulator.totals.requests == 51 })
        first.signal(SIGSTOP)
        stage.simulator.behave { $0.script.failures = [] }
        let second = try stage.start(settings, name: "second.json")
        #expect(second.says("Connected to Redis"))
        #expect(try stage.status().inFlight == 50, "nothing is taken before the lease is over")
        #expect(stage.accepts(51))
        #expect(second.says("Took over 50 jobs of the dead worker "))
        #expect(try stage.drains())
        first.signal(SIGCONT)
        #expect(try waitUntil { try stage.counter(.fenced) == 1 })
        #expect(first.says("Another worker has taken over 50 jobs of this worker."))
        #expect(first.says("a request got no response; replacing the session"))
        #expect(!first.standardError.contains("Retrying count"))
        try stage.push(pushJob("0c"))
        #expect(stage.accepts(52))
        #expect(first.stop()?.status == 0)
        #expect(second.stop()?.status == 0)
        #expect(try stage.status().workers.isEmpty)
        #expect(try stage.counter(.retried) == 0)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
    }

    @Test func `two daemons share a list without duplicates`() throws {
        let stage = try Stage()
        let daemons = try ["first.json", "second.json"].map { try stage.start(name: $0) }
        // Otherwise the first daemon could send all jobs alone.
        #expect(try waitUntil(atMost: .seconds(30)) { try stage.status().workers.count == 2 })
        try stage.push((0..<6000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(6000, atMost: .seconds(120)))
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        for daemon in daemons { #expect(daemon.stop()?.status == 0) }
        #expect(try stage.counter(.sent) == 6000)
        #expect(try stage.counter(.maybeDuplicate) == 0)
    }

    @Test func `at_most_once pops, sends and drains`() throws {
        let (stage, daemon) = try given(["redis_delivery": "\"at_most_once\""])
        stage.simulator.plan(token: "0a", answers: [.usual(503)])
        stage.simulator.plan(token: "0b", answers: [.usual(410)])
        try stage.push((0..<500).map { pushJob(deviceToken($0)) } + [pushJob("0a"), pushJob("0b"), "no job"])
        #expect(try stage.settles(501))
        #expect(try stage.status().dead == 2)
        #expect(try stage.status().feedback == 1)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        stage.simulator.behave { $0.script.failures = [.init(.delay(.milliseconds(300), then: .accept), 1)] }
        try stage.push((1000..<3500).map { pushJob(deviceToken($0)) })
        #expect(try waitUntil { try stage.status().backlog < 2500 })
        #expect(daemon.stop()?.status == 0)
        let accepted = stage.simulator.totals.accepted - 501
        #expect(try stage.status().backlog + accepted == 2500, "unsent jobs went back")
        #expect(try stage.command("KEYS", "*chunks*").items?.isEmpty == true)
    }
}
