import Platform
import Testing

@testable import PushPool

@Suite("When the peer says GOAWAY")
struct GoAwayTests {
    @Test func `attempts above its last id are not processed, the others are heard out`() {
        var session = SessionFixture(inFlight: [10, 11, 12])
        #expect(session.goAway(last: 3) == [.report(12, .notProcessed(SessionFixture.away)), .retire])
        #expect(session.machine.phase == .draining)
        #expect(session.machine.free == 0)
        #expect(session.answer(0) == [.report(10, SessionFixture.delivered)])
        #expect(session.answer(1) == [.report(11, SessionFixture.delivered), .disconnect(SessionFixture.away)])
    }

    @Test func `a session with nothing in flight closes at once`() {
        var session = SessionFixture()
        #expect(session.goAway(last: 0) == [.retire, .disconnect(SessionFixture.away)])
    }

    @Test func `the graceful one takes nothing SessionFixture.away and a second one may`() {
        var session = SessionFixture(inFlight: [10, 11])
        #expect(session.goAway(last: .max) == [.retire])
        #expect(session.goAway(last: 1) == [.report(11, .notProcessed(SessionFixture.away))])
        #expect(session.reset(1, code: 7) == [])
        #expect(session.answer(0) == [.report(10, SessionFixture.delivered), .disconnect(SessionFixture.away)])
    }

    @Test func `the connection that then closes was to be expected`() {
        var session = SessionFixture(inFlight: [10])
        _ = session.goAway(last: 1)
        #expect(session.tell { $0.connectionLost(SessionFixture.lost, &$1) } == [.disconnect(SessionFixture.away)])
        #expect(session.close(SessionFixture.away, written: [0]) == [.report(10, .maybeProcessed(SessionFixture.away))])
    }

    @Test func `a closed session does not hear it`() {
        var session = SessionFixture()
        _ = session.close(SessionFixture.lost)
        #expect(session.goAway(last: 0) == [])
    }
}

@Suite("When a connection ends")
struct ConnectionEndTests {
    @Test func `written requests may be processed, unwritten ones are certainly not`() {
        var session = SessionFixture(inFlight: [1, 2, 3])
        #expect(session.tell { $0.connectionLost(SessionFixture.lost, &$1) } == [.disconnect(SessionFixture.lost)])
        let expected: [SessionMachine.Effect] = [
            .report(1, .maybeProcessed(SessionFixture.lost)), .report(2, .notProcessed(SessionFixture.lost)),
            .report(3, .maybeProcessed(SessionFixture.lost)),
        ]
        #expect(session.close(SessionFixture.lost, written: [0, 2]) == expected)
        #expect(session.machine.phase == .closed)
    }

    @Test func `nothing is said twice afterwards`() {
        var session = SessionFixture(inFlight: [1])
        _ = session.close(SessionFixture.lost, written: [0])
        #expect(session.answer(0) == [])
        #expect(session.reset(0, code: 7) == [])
        #expect(session.close(SessionFixture.lost) == [])
        #expect(session.tick(after: .seconds(1000)) == [])
        #expect(session.pong(1, after: .zero) == [])
        #expect(session.tell { $0.connectionLost(SessionFixture.lost, &$1) } == [])
        #expect(session.tell { $0.retire(because: .closedByUs, &$1) } == [])
        #expect(session.tell { $0.endedByOwner(&$1) } == [])
        #expect(session.tell { $0.limitChanged(to: 5, &$1) } == [])
        #expect(session.machine.deadline == nil)
        #expect(session.machine.free == 0)
    }

    @Test func `the owner's wish ends it at once, its drain when it is empty`() {
        var session = SessionFixture(inFlight: [1])
        #expect(session.tell { $0.retire(because: .closedByUs, &$1) } == [.retire])
        #expect(session.tell { $0.retire(because: .closedByUs, &$1) } == [])
        #expect(session.tell { $0.endedByOwner(&$1) } == [.disconnect(.closedByUs)])
        #expect(session.tell { $0.endedByOwner(&$1) } == [])
    }
}
