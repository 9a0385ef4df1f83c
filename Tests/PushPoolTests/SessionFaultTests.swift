import PushPool
import Synchronization
import Testing

private func outcome(of deliveries: [Delivery], _ id: UInt64) -> Outcome? {
    deliveries.first { $0.id == id }?.outcome
}

@Suite("When a session goes wrong")
struct SessionFaultTests {
    @Test func `what is above the last id of GOAWAY is not processed, and a replacement delivers the rest`() throws {
        let graceful = FakeServer.Script(
            answers: [.silence, .goAway(last: 1, debug: #"{"reason":"Shutdown"}"#), .silence])
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
        fixture.events.wait { events in
            events.contains { if case .closed(_, _, .connectionLost) = $0 { true } else { false } }
        }
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
        fixture.events.wait { events in
            events.contains { if case .closed(_, _, .closedByUs) = $0 { true } else { false } }
        }
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

    @Test func `a peer that reads nothing keeps the rest certain`() throws {
        let server = try FakeServer([.init(maxConcurrentStreams: 1000, isDeaf: true, answers: [.silence])])
        let fixture = try PoolFixture(port: server.port) {
            $0.maxConcurrentStreams = 1000
            $0.requestTimeout = .milliseconds(300)
            $0.pingTimeout = .milliseconds(300)
        }
        fixture.waitUntilOpened()
        fixture.push(1)
        fixture.events.wait { _ in server.record.requests.load(ordering: .relaxed) == 1 }
        fixture.push(999, payload: #"{"a":"\#(String(repeating: "x", count: 4000))"}"#)
        let deliveries = fixture.waitForDeliveries(1000)
        #expect(outcome(of: deliveries, 1) == .maybeProcessed(.pingUnanswered))
        #expect(Set(deliveries.map(\.id)).count == 1000)
    }
}
