import APNSSimulator
import Harness
import Platform
import RedisQueue
import Testing

@Suite("The end of a session costs no retry", .blocking)
struct DaemonSessionTests {
    @Test func `after ENHANCE_YOUR_CALM the rate is halved, and logged once`() throws {
        let (stage, daemon) = try givenOpen()
        try stage.push((0..<400).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(401))
        stage.simulator.goAway(GoAway(code: 11, debugData: "too much"))
        #expect(waitUntil { daemon.calmLimit != nil })
        let limit = try #require(daemon.calmLimit)
        #expect((10...201).contains(limit))
        try stage.push((1000..<1000 + 3 * limit).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(401 + 3 * limit))
        let entries = Array(stage.simulator.ledger.entries.dropFirst(401))
        // A push may arrive a little late.
        let isHalf = zip(entries.dropFirst(limit), entries).allSatisfy { $0.time - $1.time >= .milliseconds(900) }
        #expect(isHalf, "more than \(limit) in a second")
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(daemon.complaints.count { $0.contains("APNs sent ENHANCE_YOUR_CALM") } == 1)
    }

    @Test func `requests that APNs certainly did not process are resent at once, uncounted`() throws {
        let (stage, _) = try givenOpen(["retry_delays": "[60]"])
        stage.simulator.plan(token: "0a", answers: [.resetStream(code: 7), .resetStream(code: 7)])
        stage.simulator.plan(token: "0b", answers: [.goAway(GoAway(last: .belowThis))])
        try stage.push([pushJob("0a"), pushJob("0b")])
        #expect(stage.accepts(3))
        #expect(try stage.drains())
        #expect(try stage.counter(.resent) >= 3)
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
    }

    @Test func `requests that APNs may have processed are resent at once, counted as maybe_duplicate`() throws {
        let (stage, _) = try givenOpen(["retry_delays": "[60]"])
        let faults: [(String, Answer)] = [
            ("0a", .resetStream(code: 2)), ("0b", .closeConnection(recorded: true)), ("0c", .closeConnection(recorded: false)),
        ]
        for (count, (token, answer)) in faults.enumerated() {
            stage.simulator.plan(token: token, answers: [answer])
            try stage.push(pushJob(token))
            #expect(waitUntil { stage.simulator.ledger.requests(for: token).count == 2 })
            #expect(try stage.drains())
            #expect(try stage.counter(.maybeDuplicate) == count + 1)
        }
        #expect(stage.simulator.ledger.acceptedCount(token: "0b") == 2)
        #expect(stage.simulator.ledger.acceptedCount(token: "0c") == 1)
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.resent) == 3)
        #expect(try stage.counter(.sent) == 4)
    }

    @Test func `jobs stay in the list while APNs is unavailable`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.refusesConnections = true }
        let jobs = (0..<30).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        let daemon = try stage.start()
        #expect(daemon.says("No session to "))
        #expect(try stage.backlog() == jobs)
        #expect(try stage.status().inFlight == 0)
        stage.simulator.behave { $0.refusesConnections = false }
        #expect(stage.accepts(30))
        stage.simulator.behave { $0.refusesConnections = true }
        stage.simulator.closeConnections()
        #expect(daemon.says("is closed"))
        try stage.push(jobs)
        #expect(try waitUntil { try stage.status().backlog == 30 && stage.status().inFlight == 0 })
        stage.simulator.behave { $0.refusesConnections = false }
        #expect(try stage.settles(60))
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.status().dead == 0)
    }

    @Test func `a silent server ends the dial after apns_dial_timeout`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.greeting = .nothing }
        try stage.push(pushJob("0a"))
        let daemon = try stage.start(["apns_dial_timeout": "0.2"])
        #expect(daemon.says("No session to "))
        #expect(try stage.backlog() == [pushJob("0a")])
        stage.simulator.behave { $0.greeting = .settings }
        #expect(stage.accepts(1))
    }
}

extension DaemonProcess {
    /// The limit that the log names after ENHANCE_YOUR_CALM, in pushes per second.
    fileprivate var calmLimit: Int? {
        let words = standardError.split(separator: "APNs sent ENHANCE_YOUR_CALM: at most ").dropFirst().first
        return words?.split(separator: " pushes a second from now on.").first.flatMap { Int($0) }
    }
}
