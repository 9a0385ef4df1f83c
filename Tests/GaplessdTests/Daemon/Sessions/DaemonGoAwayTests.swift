import APNSSimulator
import Harness
import RedisQueue
import Testing

/// The rows `goaway`, `goaway-kinds`, `streams` and `apns-halfopen` of the fault table test more kinds.
@Suite("GOAWAY under load", .blocking)
struct DaemonGoAwayTests {
    private static let quick: ClosedRange<Duration> = .milliseconds(2)...(.milliseconds(6))

    /// - Parameter turns: which requests get this answer; every 150th unless told.
    private func run(
        _ answer: Answer, turns: [Int] = [], jobs: Int = 1500, _ change: (inout Behaviour) -> Void = { _ in }
    ) throws -> Stage {
        let (stage, daemon) = try givenOpen()
        stage.simulator.behave {
            $0.script.latency = Self.quick
            $0.script.turns = turns.isEmpty ? [.init(150, repeats: true, answer)] : turns.map { .init($0, answer) }
            change(&$0)
        }
        try stage.push((0..<jobs).map { pushJob(deviceToken($0)) })
        #expect(try stage.drains(atMost: .seconds(90)), "\(answer): \(daemon.standardError.suffix(2000))")
        #expect(stage.simulator.ledger.acceptedCounts.count == jobs + 1, "\(answer): lost")
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0, "\(answer)")
        #expect(stage.simulator.totals.limitViolations == 0)
        #expect(daemon.stop()?.status == 0)
        return stage
    }

    @Test(arguments: [
        "goaway:graceful", "goaway:below", "goaway:twice", "goaway:all:Shutdown", "goaway:limit",
    ])
    func `requests above the last id are resent once, and the others get their responses`(answer: String) throws {
        let stage = try run(Answer(answer))
        #expect(stage.simulator.totals.goAways >= 5)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.maybeDuplicate) == 0)
    }

    @Test(arguments: ["goaway:abrupt", "cut", "cut-after", "rst:2"])
    func `requests that APNs may have processed are resent and counted`(answer: String) throws {
        let stage = try run(Answer(answer), turns: [100, 500, 900, 1300])
        let twice = stage.simulator.ledger.acceptedCounts.values.count { $0 > 1 }
        #expect(try Int64(twice) <= stage.counter(.maybeDuplicate))
        #expect(try stage.counter(.maybeDuplicate) > 0)
        #expect(twice > 0 || answer != "cut-after", "an accepted push whose answer was cut goes out again")
    }

    @Test(arguments: ["cut", "cut-after", "goaway:abrupt"])
    func `each cut repeats only the streams of a slow start, not a thousand`(answer: String) throws {
        let stage = try run(Answer(answer))
        let cuts = stage.simulator.totals.connections
        let twice = stage.simulator.ledger.acceptedCounts.values.reduce(0) { $0 + $1 - 1 }
        let resent = try stage.counter(.resent)
        #expect(cuts > 10)
        // The first two sessions broke at full speed, and two more if a GOAWAY had replaced them before.
        #expect(resent < 4000 + 50 * cuts, "\(resent) resent in \(cuts) cuts")
        // One per cut, and the requests whose responses were on the wire, within 2 to 6 ms.
        #expect(twice <= 10 * cuts, "\(twice) delivered twice in \(cuts) cuts")
    }

    @Test func `GOAWAY in the place of SETTINGS on every second connection costs time and no push`() throws {
        let stage = try run(Answer("goaway:all")) {
            $0.greeting = .goAway(.reason(.shutdown, last: .zero))
            $0.greetingShare = 0.5
        }
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.maybeDuplicate) == 0)
    }

    @Test(arguments: Behaviour.OverLimit.allCases)
    func `a limit that wanders between 0 and 1000 is never broken by us`(overLimit: Behaviour.OverLimit) throws {
        let stage = try run(.accept, jobs: 3000) {
            $0.overLimit = overLimit
            $0.limitWalk = .init(interval: .milliseconds(10), bounds: 0...1000)
        }
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.maybeDuplicate) == 0)
    }
}

@Suite("Connections with unusual servers", .blocking)
struct DaemonConnectionTests {
    @Test(arguments: [true, false])
    func `answers in split frames or in records of one byte are understood`(splitsFrames: Bool) throws {
        let stage = try Stage {
            $0.behaviour.splitsFrames = splitsFrames
            $0.behaviour.recordBytes = splitsFrames ? 16384 : 1
        }
        try stage.startOpen()
        stage.simulator.behave { $0.script.turns = [.init(10, repeats: true, .usual(410))] }
        try stage.push((0..<200).map { pushJob(deviceToken($0)) })
        #expect(try stage.drains())
        #expect(try stage.feedback().count == 20)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(waitUntil { stage.simulator.totals.connections == 2 })
    }

    @Test(arguments: [Behaviour.IdleFault.goAway, .badRequest, .internalError])
    func `errors on idle sessions lose no job`(fault: Behaviour.IdleFault) throws {
        let (stage, _) = try givenOpen(["retry_delays": "[0.3]"])
        for round in 0..<2 {
            stage.simulator.behave {
                $0.idleLimit = .milliseconds(100)
                $0.idleFault = fault
            }
            let goAways = stage.simulator.totals.connections
            _ = waitUntil(atMost: .milliseconds(250)) { fault == .goAway && stage.simulator.totals.connections > goAways }
            try stage.push((0..<10).map { pushJob(deviceToken(round * 10 + $0)) })
            // The session must work again after the fault.
            _ = waitUntil { stage.simulator.totals.requests > 1 + round * 10 }
            stage.simulator.behave { $0.idleLimit = nil }
            #expect(stage.accepts(11 + round * 10))
        }
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.count == 21)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.status().dead == 0)
    }

    @Test func `a server that closes every session gets few dials`() throws {
        let stage = try Stage()
        stage.simulator.behave {
            $0.greeting = .goAway(.reason(.serviceUnavailable, last: .zero))
            $0.connectLimit = .init(count: 20, window: .seconds(1), block: .seconds(60))
        }
        try stage.push((0..<20).map { pushJob(deviceToken($0)) })
        try stage.start(["apns_dial_backoff_min": "0.2", "apns_dial_backoff_max": "0.4"])
        #expect(waitUntil { stage.simulator.totals.connections >= 6 })
        #expect(stage.simulator.totals.blockedConnections == 0)
        stage.simulator.behave { $0.greeting = .settings }
        #expect(stage.accepts(20))
        #expect(stage.simulator.totals.blockedConnections == 0)
        #expect(try stage.counter(.retried) == 0)
    }

    @Test func `pushes keep to one provider token and send no PRIORITY`() throws {
        let (stage, _) = try givenOpen(["pool_size": "4"])
        try stage.push((0..<1000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(1001))
        let totals = stage.simulator.totals
        #expect(totals.providerTokens == ["SIMKEY0001": 1])
        #expect(totals.priorityFrames == 0 && totals.violations == 0)
        // 261.5 bytes were measured, 161 of them for the provider token.
        #expect(totals.headerBytes / totals.requests < 280, "\(totals.headerBytes / totals.requests) bytes a request")
    }
}
