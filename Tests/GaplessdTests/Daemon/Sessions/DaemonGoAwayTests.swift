import APNSSimulator
import Harness
import RedisQueue
import Testing

@Suite("Sessions that are told to go, under load", .blocking)
struct DaemonGoAwayTests {
    private static let quick: ClosedRange<Duration> = .milliseconds(2)...(.milliseconds(6))

    /// - Parameter turns: which requests get this answer; every 150th unless told.
    private func run(
        _ answer: Answer, turns: [Int] = [], jobs: Int = 1500, _ change: (inout Behaviour) -> Void = { _ in }
    ) throws -> Stage {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        stage.simulator.behave {
            $0.script.latency = Self.quick
            $0.script.turns = turns.isEmpty ? [.init(150, repeats: true, answer)] : turns.map { .init($0, answer) }
            change(&$0)
        }
        try stage.push((0..<jobs).map { pushJob(deviceToken($0)) })
        #expect(try stage.drains(atMost: .seconds(60)), "\(answer): \(daemon.standardError.suffix(2000))")
        #expect(stage.simulator.ledger.acceptedCounts.count == jobs + 1, "\(answer): lost")
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0, "\(answer)")
        #expect(stage.simulator.totals.limitViolations == 0)
        #expect(daemon.stop()?.status == 0)
        return stage
    }

    @Test(arguments: [
        "goaway:graceful", "goaway:all", "goaway:below", "goaway:twice", "goaway:all:Shutdown", "goaway:all:going down now",
        "goaway:limit", "goaway:below:InternalServerError",
    ])
    func `what the last id leaves out goes out again, once, and what it holds is heard out`(answer: String) throws {
        let stage = try run(Answer(answer))
        #expect(stage.simulator.totals.goAways >= 5)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.maybeDuplicate) == 0)
    }

    @Test(arguments: ["goaway:abrupt", "cut", "cut-after", "rst:2", "goaway:abrupt:Shutdown"])
    func `what may have been processed goes out again, and is counted`(answer: String) throws {
        let stage = try run(Answer(answer), turns: [100, 500, 900, 1300])
        let twice = stage.simulator.ledger.acceptedCounts.values.count { $0 > 1 }
        #expect(try Int64(twice) <= stage.counter(.maybeDuplicate))
        #expect(try stage.counter(.maybeDuplicate) > 0)
        #expect(twice > 0 || answer != "cut-after", "an accepted push whose answer was cut goes out again")
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

    @Test func `a limit that falls to one after each rejection delays and loses nothing`() throws {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        stage.simulator.behave {
            $0.dropsLimitAfterRejection = true
            $0.script.latency = Self.quick
            $0.script.turns = [.init(50, repeats: true, .usual(413))]
        }
        try stage.push((0..<1000).map { pushJob(deviceToken($0)) })
        #expect(try stage.drains())
        #expect(try stage.status().dead == 20)
        #expect(stage.simulator.ledger.acceptedCounts.count == 981)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(stage.simulator.totals.limitViolations == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `one stream at first, then a thousand, one and none: nothing refused by our fault`() throws {
        let stage = try Stage()
        let daemon = try stage.start()
        stage.simulator.behave { $0.script.latency = Self.quick }
        try stage.push((0..<2000).map { pushJob(deviceToken($0)) })
        for (accepted, limit) in [(300, 1), (310, 0), (310, 1000), (1200, 0), (1200, 1000)] as [(Int, UInt32)] {
            #expect(stage.accepts(accepted))
            stage.simulator.behave { $0.streamLimit = limit }
        }
        #expect(stage.accepts(2000))
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.count == 2000)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(stage.simulator.totals.limitViolations == 0)
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(daemon.stop()?.status == 0)
    }
}

@Suite("Connections that are slow, dumb or strange", .blocking)
struct DaemonConnectionTests {
    @Test(arguments: [true, false])
    func `answers in split frames or in records of one byte are understood`(splitsFrames: Bool) throws {
        let stage = try Stage {
            $0.behaviour.splitsFrames = splitsFrames
            $0.behaviour.recordBytes = splitsFrames ? 16384 : 1
        }
        let daemon = try stage.start()
        try stage.open(daemon)
        stage.simulator.behave { $0.script.turns = [.init(10, repeats: true, .usual(410))] }
        try stage.push((0..<200).map { pushJob(deviceToken($0)) })
        #expect(try stage.drains())
        #expect(try stage.feedback().count == 20)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(waitUntil { stage.simulator.totals.connections == 2 })
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a window of a hundred bytes is waited for`() throws {
        let stage = try Stage { $0.behaviour.initialWindow = 100 }
        let daemon = try stage.start()
        let text = String(repeating: "x", count: 3900)
        try stage.push((0..<40).map { pushJob(deviceToken($0), data: #"{"aps":{"alert":"\#(text)"}}"#) })
        #expect(stage.accepts(40))
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.entries.allSatisfy { $0.body?.count == 3920 })
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    /// Twelve seconds: a PING has ten for its answer.
    @Test func `a connection whose cable is pulled is left, and what was on it goes out on another`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["apns_request_timeout": "0.5"])
        try stage.open(daemon)
        stage.simulator.plan(token: deviceToken(7), answers: [.halfOpen(recorded: false)])
        try stage.push((0..<200).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(201, atMost: .seconds(30)))
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.count == 201)
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0)
        #expect(daemon.says("is closed"))
        #expect(daemon.stop()?.status == 0)
    }

    @Test(arguments: [Behaviour.IdleFault.goAway, .badRequest, .internalError])
    func `what APNs says to idle sessions loses nothing`(fault: Behaviour.IdleFault) throws {
        let stage = try Stage()
        let daemon = try stage.start(["retry_delays": "[0.3]"])
        try stage.open(daemon)
        for round in 0..<3 {
            stage.simulator.behave {
                $0.idleLimit = .milliseconds(100)
                $0.idleFault = fault
            }
            #expect(!waitUntil(atMost: .milliseconds(250)) { false })
            try stage.push((0..<10).map { pushJob(deviceToken(round * 10 + $0)) })
            // A session that APNs calls broken for ever would never be good again.
            _ = waitUntil { stage.simulator.totals.requests > 1 + round * 10 }
            stage.simulator.behave { $0.idleLimit = nil }
            #expect(stage.accepts(11 + round * 10))
        }
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.count == 31)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.status().dead == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a server that throws everybody out is not stormed`() throws {
        let stage = try Stage()
        stage.simulator.behave {
            $0.greeting = .goAway(.reason(.serviceUnavailable, last: .zero))
            $0.connectLimit = .init(count: 20, window: .seconds(1), block: .seconds(60))
        }
        try stage.push((0..<20).map { pushJob(deviceToken($0)) })
        let daemon = try stage.start(["apns_dial_backoff_min": "0.2", "apns_dial_backoff_max": "0.4"])
        #expect(waitUntil { stage.simulator.totals.connections >= 6 })
        #expect(stage.simulator.totals.blockedConnections == 0)
        stage.simulator.behave { $0.greeting = .settings }
        #expect(stage.accepts(20))
        #expect(stage.simulator.totals.blockedConnections == 0)
        #expect(try stage.counter(.retried) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `pushes keep to one provider token and send no PRIORITY`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["pool_size": "4"])
        try stage.open(daemon)
        try stage.push((0..<1000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(1001))
        let totals = stage.simulator.totals
        #expect(totals.providerTokens == ["SIMKEY0001": 1])
        #expect(totals.priorityFrames == 0 && totals.violations == 0)
        // 161 bytes of them are the JWT where it is sent each time (so 261.5 in all were measured).
        #expect(totals.headerBytes / totals.requests < 280, "\(totals.headerBytes / totals.requests) bytes a request")
        #expect(daemon.stop()?.status == 0)
    }
}
