import APNSSimulator
import Harness
import RedisQueue
import Testing

@Suite("The governor", .blocking)
struct DaemonGovernorTests {
    @Test func `sessions open while all are full, and close when fewer are enough`() throws {
        let stage = try Stage {
            $0.behaviour.streamLimit = 1
        }
        let daemon = try stage.start([
            "pool_size": "1", "pool_max_size": "4", "pool_poll_interval": "0.05", "pool_min_sustain": "0.2",
            "pool_settle_period": "0.3",
        ])
        stage.simulator.behave { $0.script.latency = .milliseconds(5)...(.milliseconds(5)) }
        try stage.push((0..<1200).map { pushJob(deviceToken($0)) })
        #expect(daemon.says("4 sessions instead of 3: all were full."))
        #expect(waitUntil { stage.simulator.totals.connections == 4 })
        #expect(try stage.drains())
        #expect(daemon.says("1 session instead of 2: fewer are enough."))
        #expect(waitUntil { daemon.reports.count { $0.contains(" is closed.") } == 3 })
        // Again, after an idle time.
        try stage.push((2000..<3200).map { pushJob(deviceToken($0)) })
        #expect(waitUntil { daemon.reports.count { $0.contains("2 sessions instead of 1: all were full.") } == 2 })
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.count == 2400)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `without pool_max_size the number of sessions stays`() throws {
        let stage = try Stage { $0.behaviour.streamLimit = 1 }
        let daemon = try stage.start([
            "pool_size": "1", "pool_poll_interval": "0.01", "pool_min_sustain": "0.02", "pool_settle_period": "0.01",
        ])
        stage.simulator.behave { $0.script.latency = .milliseconds(2)...(.milliseconds(2)) }
        try stage.push((0..<300).map { pushJob(deviceToken($0)) })
        #expect(try stage.drains())
        #expect(stage.simulator.totals.connections == 1)
        #expect(daemon.stop()?.status == 0)
    }
}
