import APNSSimulator
import Glibc
import Harness
import Platform
import RedisQueue
import Testing

/// DispatchMemoryTests tests the decisions.
@Suite("An acceptance is remembered beside the list", .blocking)
struct DaemonAcceptanceTests {
    private func knowsAcceptance(_ stage: Stage) throws -> Bool {
        try stage.command("HLEN", stage.keys.accepted).integer == 1
    }

    @Test func `after a restart, dead tokens at the head of the list delay no good push`() throws {
        let stage = try Stage()
        let first = try stage.start()
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
        #expect(try waitUntil { try knowsAcceptance(stage) })
        #expect(first.stop()?.status == 0)
        for dead in 0..<300 { stage.simulator.plan(token: deviceToken(dead), answers: Array(repeating: .usual(400), count: 9)) }
        try stage.push((0..<2300).map { pushJob(deviceToken($0)) })
        let second = try stage.start()
        #expect(stage.accepts(2001))
        #expect(try waitUntil { try stage.status().dead == 300 })
        #expect(try stage.drains())
        #expect(!second.standardError.contains("jobs stay in the queue"))
        #expect(try stage.counter(.sent) == 2001)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(second.stop()?.status == 0)
    }

    @Test func `if Redis refuses the key, an app begins in doubt, and the log says nothing about it`() throws {
        let stage = try Stage()
        _ = try stage.command("SET", stage.keys.accepted, "of another kind")
        let daemon = try stage.start()
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(100))
        #expect(!daemon.standardError.contains("WRONGTYPE"), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
    }
}
