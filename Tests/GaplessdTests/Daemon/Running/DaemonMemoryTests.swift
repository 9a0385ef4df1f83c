import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("Jobs for many devices", .blocking)
struct DaemonManyDevicesTests {
    /// A million parts, each with its own payload, would use more than half a gigabyte.
    @Test(arguments: ["Hello", String(repeating: "x", count: 3000)])
    func `they are split only as far ahead as they can be sent`(text: String) throws {
        let stage = try Stage { $0.ledgerDetail = .counts }
        let tokens = (0..<10_000).map { "\"\(deviceToken($0))\"" }.joined(separator: ",")
        let job = #"{"tokens":[\#(tokens)],"data":{"aps":{"alert":"\#(text)"}}}"#
        for _ in 0..<50 { try stage.push(job) }
        let daemon = try stage.start()
        #expect(stage.accepts(5000, atMost: .seconds(120)), "\(daemon.standardError)")
        let peak = daemon.peakBytes
        #expect(peak < Sanitizer.memoryBound(64 << 20), "\(peak >> 20) MB resident")
        // Most jobs still wait in the list.
        #expect(try stage.status().backlog < 10_000)
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0)
    }
}

@Suite("A Redis that is old or loses data", .blocking)
struct DaemonMemoryTests {
    @Test(arguments: [["--rename-command", "BLMOVE", ""], []])
    func `without BLMOVE the daemon polls the list, and logs it once`(options: [String]) throws {
        let stage = try Stage(redis: options)
        if options.isEmpty { try stage.command("ACL", "SETUSER", "default", "-blmove") }
        let daemon = try stage.start()
        let sentence = options.isEmpty ? "waiting for jobs is refused" : "it has no BLMOVE (added in Redis 6.2)"
        #expect(daemon.says(sentence), "\(daemon.standardError)")
        for round in 0..<3 {
            try stage.push(pushJob(deviceToken(round)))
            #expect(stage.accepts(round + 1))
        }
        try stage.killClients()
        try stage.push(pushJob(deviceToken(100)))
        #expect(stage.accepts(4), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
        #expect(daemon.complaints.count { $0.contains(sentence) } == 1, "\(daemon.standardError)")
    }

    enum Loss: CaseIterable {
        case emptied, restartedWithoutFiles, rolledBack
    }

    @Test(arguments: Loss.allCases)
    func `the daemon restores its jobs in a Redis that was emptied or put back to before their push`(loss: Loss) throws {
        let (stage, daemon) = try givenOpen(["apns_max_concurrent_streams": "10", "pool_size": "1", "redis_lease": "3"])
        if loss == .rolledBack { try stage.command("SAVE") }
        stage.simulator.behave { $0.script.latency = .seconds(1)...(.seconds(1)) }
        try stage.push((0..<14).map { pushJob(deviceToken($0)) })
        let isHeld = try waitUntil(every: .milliseconds(1)) {
            let status = try stage.status()
            return status.backlog == 0 && status.inFlight == 14
        }
        #expect(isHeld)
        // The daemon has read the reply to its claim: until then only Redis has the jobs.
        #expect(daemon.reloads())
        if loss == .emptied {
            try stage.command("FLUSHALL")
        } else {
            try stage.restartRedis()
        }
        let event = "Redis was \(loss == .rolledBack ? "put back to an earlier state" : "emptied")"
        #expect(daemon.says("\(event): "), "\(daemon.standardError)")
        #expect(try stage.settles(15), "\(daemon.standardError)")
        let status = try stage.status()
        #expect(status.unexplained == 0)
        #expect(Set(stage.simulator.ledger.entries.map(\.token)).count == 15)
        if loss != .rolledBack {
            #expect(status.counters[.sent] == 14)
            #expect(stage.simulator.ledger.entries.count == 15, "no push is a duplicate")
            let warnings = daemon.complaints.filter { $0.hasPrefix("[Gapless W]") }
            #expect(warnings.contains { $0.contains("jobs that this worker holds were put back") })
        }
        #expect(!daemon.complaints.contains { $0.contains("60 %") || $0.contains("taken over") }, "\(daemon.standardError)")
        let audit = try Call(["audit", stage.folder.file("settings.json")])
        #expect(audit.status == 0 && audit.output.contains("\n\(event) before "), "\(audit.output)")
        #expect(!audit.output.contains("balances"))
    }

    @Test func `the jobs of a Redis that was rolled back are pushed again, counted and logged`() throws {
        let (stage, daemon) = try givenOpen()
        stage.simulator.behave { $0.script.latency = .seconds(2)...(.seconds(2)) }
        try stage.push((0..<50).map { pushJob(deviceToken($0)) })
        #expect(try waitUntil { try stage.status().inFlight == 50 })
        try stage.command("SAVE")
        try #require(try stage.counter(.sent) == 1, "the machine is too slow for this test: the answers came before the dump")
        stage.simulator.behave { $0.script.latency = .zero...(.zero) }
        #expect(try waitUntil { try stage.counter(.sent) == 51 })
        try stage.restartRedis()
        #expect(daemon.says("Redis was put back to an earlier state"), "\(daemon.standardError)")
        #expect(try stage.drains())
        // The jobs in Redis are pushed again, except for those of an unconfirmed settlement, which is repeated.
        let status = try stage.status()
        let again = stage.simulator.totals.accepted - 51
        #expect((1...50).contains(again))
        #expect(status.counters[.maybeDuplicate] == Int64(again))
        #expect(status.counters[.sent] == 51)
        #expect(status.unexplained == 0)
    }
}
