import Platform
import Testing

@testable import PushPool

@Suite("As time passes on a session")
struct SessionTimeTests {
    @Test func `an idle one is asked after a minute, a busy one after 15 seconds`() {
        var idle = SessionFixture()
        #expect(idle.machine.deadline == idle.start + .seconds(60))
        #expect(idle.tick(after: .seconds(59)) == [])
        #expect(idle.tick(after: .seconds(60)) == [.ping(1)])
        var limits = SessionMachine.Limits()
        limits.requestTimeout = .seconds(100)
        var busy = SessionFixture(inFlight: [1], limits: limits)
        #expect(busy.tick(after: .seconds(14)) == [])
        #expect(busy.tick(after: .seconds(15)) == [.ping(1)])
        #expect(busy.tick(after: .seconds(16)) == [])
    }

    @Test func `the silence of an idle hour is not held against its first push`() {
        var session = SessionFixture()
        session.push(1, after: .seconds(50))
        #expect(session.tick(after: .seconds(60)) == [])
        #expect(session.machine.deadline == session.start + .seconds(65))
    }

    @Test func `whatever is heard puts the question off`() {
        var session = SessionFixture()
        session.machine.heard(now: session.start + .seconds(30))
        #expect(session.tick(after: .seconds(60)) == [])
        #expect(session.tick(after: .seconds(90)) == [.ping(1)])
    }

    @Test func `a PING without an answer for 10 seconds ends it`() {
        var session = SessionFixture(inFlight: [1])
        _ = session.tick(after: .seconds(15))
        #expect(session.machine.deadline == session.start + .seconds(25))
        #expect(session.tick(after: .seconds(24)) == [])
        #expect(session.tick(after: .seconds(25)) == [.disconnect(.pingUnanswered)])
    }

    @Test func `only the answer to our own PING counts`() {
        var session = SessionFixture()
        #expect(session.pong(1, after: .zero) == [])
        _ = session.tick(after: .seconds(60))
        _ = session.pong(77, after: .seconds(61))
        #expect(session.tick(after: .seconds(70)) == [.disconnect(.pingUnanswered)])
    }

    @Test func `a request past its limit is given up when the PING proves the connection alive`() {
        var session = SessionFixture(inFlight: [1])
        session.push(2, after: .seconds(5))
        #expect(session.tick(after: .seconds(15)) == [.ping(1)])
        #expect(session.pong(1, after: .seconds(16)) == [.report(1, .timedOut), .cancel(1), .retire])
        #expect(session.machine.inFlight == 2)
        // The stream is closed when RST_STREAM has left; nothing is said of it again.
        #expect(session.reset(0, code: 8) == [])
        #expect(session.answer(1) == [.report(2, SessionFixture.delivered), .disconnect(.retired(.requestIgnored))])
    }

    @Test func `a request that waits for TLS has no time limit until it leaves`() {
        var session = SessionFixture(inFlight: [10, 11, 12])
        session.machine.wrote(now: session.start, isWritten: { $0 == 0 })
        #expect(session.tick(after: .seconds(15)) == [.ping(1)])
        #expect(session.pong(1, after: .seconds(16)).first == .report(10, .timedOut))
        #expect(!session.effects.contains(.report(11, .timedOut)))
        session.machine.wrote(now: session.start + .seconds(20), isWritten: { $0 <= 1 })
        session.machine.heard(now: session.start + .seconds(34))
        #expect(session.machine.deadline == session.start + .seconds(35))
        session.machine.wrote(now: session.start + .seconds(40), isWritten: { _ in true })
        #expect(session.tick(after: .seconds(36)) == [.ping(2)])
        #expect(
            session.pong(2, after: .seconds(37)).filter { $0 == .report(11, .timedOut) || $0 == .report(12, .timedOut) }
                == [.report(11, .timedOut)])
        #expect(session.close(SessionFixture.lost, written: [1]) == [.report(12, .notProcessed(SessionFixture.lost))])
    }

    @Test func `a session whose last request was given up closes`() {
        var session = SessionFixture(inFlight: [1])
        _ = session.tick(after: .seconds(15))
        let expected: [SessionMachine.Effect] = [
            .report(1, .timedOut), .cancel(1), .retire, .disconnect(.retired(.requestIgnored)),
        ]
        #expect(session.pong(1, after: .seconds(16)) == expected)
    }

    @Test func `a request past its limit on a dead connection may be processed`() {
        var session = SessionFixture(inFlight: [1])
        _ = session.tick(after: .seconds(15))
        #expect(session.tick(after: .seconds(25)) == [.disconnect(.pingUnanswered)])
        #expect(session.close(.pingUnanswered, written: [0]) == [.report(1, .maybeProcessed(.pingUnanswered))])
    }
}
