import Glibc
import Harness
import Platform
import Synchronization
import Testing

@testable import PushPool

private func outcome(of deliveries: [Delivery], _ id: UInt64) -> Outcome? {
    deliveries.first { $0.id == id }?.outcome
}

@Suite("When a session goes wrong")
struct SessionErrorTests {
    @Test func `streams above the last id of GOAWAY are not processed, and a replacement delivers them`() throws {
        let graceful = FakeServer.Script(answers: [.silence, .goAway(last: 1, debug: #"{"reason":"Shutdown"}"#), .silence])
        let server = try FakeServer([graceful, .init()])
        let fixture = try PoolFixture(port: server.port) { $0.requestTimeout = .milliseconds(300) }
        fixture.waitUntilOpened()
        fixture.push(2)
        fixture.deliveries.wait { !$0.isEmpty }
        #expect(outcome(of: fixture.deliveries.all, 2) == .notProcessed(.goAway(code: 0, reason: "Shutdown")))
        fixture.waitUntilOpened(2)
        fixture.push(1)
        // The old session still hears out the first, which is never answered.
        let deliveries = fixture.waitForDeliveries(3)
        #expect(outcome(of: deliveries, 3) == .delivered(apnsID: nil))
        #expect(outcome(of: deliveries, 1) == .timedOut)
    }

    @Test func `a refused stream is not processed and any other reset may be`() throws {
        let server = try FakeServer([.init(answers: [.reset(7), .reset(2), .status(200)])])
        let fixture = try PoolFixture(port: server.port)
        fixture.push(3)
        let deliveries = fixture.waitForDeliveries(3)
        #expect(outcome(of: deliveries, 1) == .notProcessed(.streamReset(code: 7)))
        #expect(outcome(of: deliveries, 2) == .maybeProcessed(.streamReset(code: 2)))
        #expect(outcome(of: deliveries, 3) == .delivered(apnsID: nil))
    }

    @Test func `a connection that breaks leaves what was written in doubt`() throws {
        let server = try FakeServer([.init(answers: [.status(200), .hangUp]), .init()])
        let fixture = try PoolFixture(port: server.port)
        fixture.push(1)
        fixture.waitForDeliveries(1)
        fixture.push(1)
        guard case .maybeProcessed(.connectionLost) = fixture.waitForDeliveries(2).last?.outcome else {
            Issue.record("\(fixture.deliveries.all)")
            return
        }
        fixture.push(1)
        #expect(fixture.waitForDeliveries(3).last?.outcome == .delivered(apnsID: nil))
        fixture.waitForEnd { if case .connectionLost = $0 { true } else { false } }
    }

    @Test func `a request that is ignored times out alone when the PING is answered`() throws {
        let server = try FakeServer([.init(answers: [.silence, .status(200)]), .init()])
        let fixture = try PoolFixture(port: server.port) { $0.requestTimeout = .milliseconds(200) }
        fixture.push(2)
        let deliveries = fixture.waitForDeliveries(2)
        #expect(outcome(of: deliveries, 1) == .timedOut)
        #expect(outcome(of: deliveries, 2) == .delivered(apnsID: nil))
        // The session retires softly; its stream was cancelled.
        fixture.waitUntilOpened(2)
        fixture.waitForEnd { $0 == .retired(.requestIgnored) }
    }

    @Test func `a PING without an answer is the end of the connection`() throws {
        let server = try FakeServer([.init(answersPings: false, answers: [.silence])])
        let fixture = try PoolFixture(port: server.port) {
            $0.requestTimeout = .milliseconds(100)
            $0.pingTimeout = .milliseconds(100)
        }
        fixture.push(1)
        #expect(fixture.waitForDeliveries(1).first?.outcome == .maybeProcessed(.pingUnanswered))
    }

    @Test func `an idle session is asked whether it lives`() throws {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port) { $0.keepAlive = .milliseconds(50) }
        fixture.waitUntilOpened()
        fixture.events.wait { _ in server.record.pings.load(ordering: .relaxed) >= 3 }
    }

    @Test func `each session measures its round trip when it opens, also without pushes`() throws {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port, sessions: 20)
        fixture.waitUntilOpened(20)
        fixture.events.wait { _ in server.record.pings.load(ordering: .relaxed) >= 20 }
    }

    @Test func `a limit that changes is followed, down to one and up again`() throws {
        let limits: [FakeServer.Script.Answer] = [.limit(1), .status(200), .limit(60)]
        let server = try FakeServer([.init(maxConcurrentStreams: 20, answers: limits)])
        let fixture = try PoolFixture(port: server.port)
        let ids = fixture.push(500)
        #expect(fixture.waitForDeliveries(500).map(\.id).sorted() == ids)
        #expect(fixture.pool.capacity == 60)
    }

    @Test func `a server that admits no stream gets none`() throws {
        let server = try FakeServer([.init(maxConcurrentStreams: 0)])
        let fixture = try PoolFixture(port: server.port)
        fixture.waitUntilOpened()
        fixture.push(3)
        #expect(fixture.pool.capacity == 0)
        #expect(fixture.pool.withdraw([2]) == [2])
        #expect(fixture.pool.withdraw() == [1, 3])
        #expect(server.record.requests.load(ordering: .relaxed) == 0)
    }

    @Test func `a hundred thousand errors on one session leave nothing behind`() throws {
        let body = #"{"reason":"BadDeviceToken"}"#
        let server = try FakeServer([.init(maxConcurrentStreams: 1000, answers: [.status(400, body: body)])])
        let fixture = try PoolFixture(port: server.port)
        fixture.push(100_000)
        fixture.deliveries.wait(.seconds(120)) { $0.count >= 100_000 }
        #expect(fixture.deliveries.all.count == 100_000)
        #expect(server.record.connections.load(ordering: .relaxed) == 1)
        fixture.push(1)
        fixture.waitForDeliveries(100_001)
    }

    @Test func `closing reports what was on the wire and returns what was not`() throws {
        let server = try FakeServer([.init(maxConcurrentStreams: 2, answers: [.silence])])
        let fixture = try PoolFixture(port: server.port)
        fixture.waitUntilOpened()
        fixture.push(5)
        fixture.events.wait { _ in server.record.requests.load(ordering: .relaxed) == 2 }
        #expect(fixture.pool.close() == [3, 4, 5])
        let reported = fixture.deliveries.drain()
        #expect(reported.map(\.id).sorted() == [1, 2])
        #expect(reported.allSatisfy { $0.outcome == .maybeProcessed(.closedByUs) })
        #expect(fixture.pool.capacity == 0)
        #expect(fixture.pool.close() == [])
    }

    @Test func `a peer that reads nothing gets what its window admits, and the rest stays in the queue`() throws {
        let server = try FakeServer([.init(maxConcurrentStreams: 1000, isDeaf: true, answers: [.silence])])
        let fixture = try PoolFixture(port: server.port) {
            $0.maxConcurrentStreams = 1000
            $0.requestTimeout = .milliseconds(300)
            $0.pingTimeout = .milliseconds(300)
            $0.dialBackoff = Backoff(first: .seconds(60))
        }
        fixture.waitUntilOpened()
        fixture.push(1)
        fixture.events.wait { _ in server.record.requests.load(ordering: .relaxed) == 1 }
        fixture.push(999, payload: #"{"a":"\#(String(repeating: "x", count: 4000))"}"#)
        fixture.waitForEnd { $0 == .pingUnanswered }
        // 65,535 bytes, and the 4,096 of the first response.
        let deliveries = fixture.waitForDeliveries(1 + 69_631 / 4008 + 1)
        #expect(outcome(of: deliveries, 1) == .maybeProcessed(.pingUnanswered))
        let withdrawn = fixture.pool.withdraw()
        #expect((deliveries.map(\.id) + withdrawn).sorted() == Array(1...1000))
    }

    @Test func `a session that has used its stream identifiers up is replaced, and nothing is lost`() throws {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port) { $0.requestsPerSession = 40 }
        let ids = fixture.push(100)
        let deliveries = fixture.waitForDeliveries(100)
        #expect(deliveries.map(\.id).sorted() == ids)
        #expect(deliveries.allSatisfy { $0.outcome == .delivered(apnsID: nil) })
        #expect(server.record.requests.load(ordering: .relaxed) == 100)
        #expect(fixture.ends == [.retired(.usedUp), .retired(.usedUp)])
    }

    @Test func `three answers of 500 in a row lead to another session, and so on with growing waits`() throws {
        let failing = FakeServer.Script(answers: [.status(500, body: #"{"reason":"InternalServerError"}"#)])
        let server = try FakeServer([failing, failing, failing, .init()])
        let fixture = try PoolFixture(port: server.port)
        fixture.waitUntilOpened(1)
        for round in 1...3 {
            fixture.push(3)
            fixture.waitForDeliveries(3 * round)
            fixture.waitUntilOpened(round + 1)
        }
        fixture.push(3)
        let deliveries = fixture.waitForDeliveries(12)
        #expect(deliveries.suffix(3).allSatisfy { $0.outcome == .delivered(apnsID: nil) })
        #expect(fixture.ends == Array(repeating: .retired(.serverErrors), count: 3))
    }

    @Test(arguments: [
        (FakeServer.Script.Answer.goAway(last: 1, code: 11), Outcome.notProcessed(.goAway(code: 11, reason: ""))),
        (.reset(11), .maybeProcessed(.streamReset(code: 11))),
    ])
    func `ENHANCE_YOUR_CALM ends the session, also on one stream: the next dial waits, and what was in flight is reported`(
        answer: FakeServer.Script.Answer, outcome: Outcome
    ) throws {
        let server = try FakeServer([.init(answers: [.status(200), answer]), .init()])
        let fixture = try PoolFixture(port: server.port) { $0.dialBackoff = Backoff(first: .milliseconds(400), jitter: 0) }
        fixture.push(1)
        fixture.waitForDeliveries(1)
        let begin = Instant.now
        fixture.push(1)
        #expect(fixture.waitForDeliveries(2).last?.outcome == outcome)
        fixture.waitUntilOpened(2)
        #expect(.now - begin >= .milliseconds(400))
    }

    @Test func `after a GOAWAY for the sake of calm no second has more than half the pushes, on any session`() throws {
        let angry = FakeServer.Script(answers: Array(repeating: .status(200), count: 100) + [.goAway(last: 199, code: 11)])
        let server = try FakeServer([angry, .init()])
        let fixture = try PoolFixture(port: server.port)
        fixture.waitUntilOpened()
        fixture.push(100)
        fixture.waitForDeliveries(100)
        #expect(fixture.pool.calmLimit == nil)
        fixture.push(1)
        let limit = try #require(fixture.waitUntilSlowed())
        // Of all in one second, or in two where the machine is slow.
        #expect((1...50).contains(limit))
        #expect(fixture.pool.calmLimit == limit)
        fixture.waitUntilOpened(2)
        fixture.waitForDeliveries(101)
        let begin = Instant.now
        fixture.push(3 * limit)
        fixture.waitForDeliveries(101 + limit + 1)
        #expect(.now - begin >= .seconds(1), "\(limit) a second")
        #expect(fixture.waitForDeliveries(101 + 2 * limit).count <= 101 + 3 * limit)
        #expect(.now - begin >= .milliseconds(1900), "\(limit) a second")
    }

    @Test func `many streams reset with ENHANCE_YOUR_CALM halve the rate once, and the limit ends in time`() throws {
        let angry = FakeServer.Script(answers: Array(repeating: .status(200), count: 60) + [.reset(11)])
        let server = try FakeServer([angry, .init()])
        let fixture = try PoolFixture(port: server.port) { $0.quietTime = .milliseconds(300) }
        fixture.waitUntilOpened()
        fixture.push(60)
        fixture.waitForDeliveries(60)
        let begin = Instant.now
        fixture.push(40)
        fixture.waitForDeliveries(100)
        let limit = try #require(fixture.waitUntilSlowed())
        fixture.events.wait { $0.contains(.slowdownEnded) }
        #expect(.now - begin >= .milliseconds(600), "it doubles once, to what was measured or less, before it goes")
        #expect(fixture.events.all.count { if case .slowed = $0 { true } else { false } } == 1)
        #expect(fixture.pool.calmLimit == nil)
        let then = fixture.push(10 * limit)
        #expect(fixture.waitForDeliveries(100 + then.count).count == 100 + then.count)
    }

    @Test func `a stream reset with another code sets no limit`() throws {
        let server = try FakeServer([.init(answers: [.reset(7), .reset(2), .status(200)])])
        let fixture = try PoolFixture(port: server.port)
        fixture.push(3)
        fixture.waitForDeliveries(3)
        #expect(fixture.pool.calmLimit == nil)
    }

    @Test func `the kernel gives a dead connection up after 20 seconds`() throws {
        let server = try FakeServer()
        let fixture = try PoolFixture(port: server.port)
        fixture.waitUntilOpened()
        #expect(userTimeouts(ofConnectionsTo: server.port) == [20_000])
    }

    @Test func `half a TLS record does not keep a session from its orders`() throws {
        let server = try FakeServer([.init(answers: [.partialRecord, .silence])])
        let fixture = try PoolFixture(port: server.port)
        fixture.push(1)
        #expect(waitUntil { server.record.partialRecords.load(ordering: .relaxed) == 1 })
        // The session has read the partial record when it sends this.
        fixture.push(1)
        #expect(waitUntil { server.record.requests.load(ordering: .relaxed) == 2 })
        _ = fixture.pool.close()
        #expect(fixture.deliveries.drain().map(\.outcome) == [.maybeProcessed(.closedByUs), .maybeProcessed(.closedByUs)])
    }
}

/// TCP_USER_TIMEOUT, in milliseconds, of this process's sockets that are connected to a port of this machine.
private func userTimeouts(ofConnectionsTo port: Int) -> [CInt] {
    (3..<1024).compactMap { (descriptor: CInt) in
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isConnected = withUnsafeMutableBytes(of: &address) { raw in
            getpeername(descriptor, raw.baseAddress!.assumingMemoryBound(to: sockaddr.self), &length) == 0
        }
        guard isConnected, Int(UInt16(bigEndian: address.sin_port)) == port else { return nil }
        var milliseconds: CInt = 0
        var size = socklen_t(MemoryLayout<CInt>.size)
        getsockopt(descriptor, CInt(IPPROTO_TCP), 18, &milliseconds, &size)  // TCP_USER_TIMEOUT
        return milliseconds
    }
}
