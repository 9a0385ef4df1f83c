import Platform
import Testing

@testable import PushPool

@Suite("A session that is open")
struct SessionMachineTests {
    @Test func `it has as many free streams as the lower of two limits leaves`() {
        var limits = SessionMachine.Limits()
        limits.maxConcurrentStreams = 5
        #expect(SessionFixture(inFlight: [1, 2], limit: 10, limits: limits).machine.free == 3)
        #expect(SessionFixture(inFlight: [1, 2], limit: 3, limits: limits).machine.free == 1)
        #expect(SessionFixture(inFlight: [1, 2], limit: 2).machine.free == 0)
    }

    @Test func `an answer is reported and frees its stream`() {
        var session = SessionFixture(inFlight: [7], limit: 1)
        #expect(session.answer(0) == [.report(7, SessionFixture.delivered)])
        #expect(session.machine.free == 1)
        #expect(session.answer(0) == [])
    }

    @Test func `a refused stream pauses the session, twice as long with each refusal in a row`() {
        var session = SessionFixture(limit: 10)
        var clock = Duration.zero
        for pause in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            session.push(1, after: clock)
            _ = session.reset(0, code: 7, after: clock)
            #expect(session.machine.free == 0)
            #expect(session.machine.deadline == session.start + clock + .milliseconds(pause))
            clock += .milliseconds(pause)
            _ = session.tick(after: clock)
        }
        session.push(3, after: clock)
        _ = session.answer(0)
        session.push(4, after: clock)
        _ = session.reset(0, code: 7, after: clock)
        #expect(session.machine.deadline == session.start + clock + .milliseconds(10), "a response ends the row")
    }

    @Test func `refusals of requests that left before the pause neither extend it nor begin another`() {
        var session = SessionFixture(inFlight: [1, 2, 3], limit: 10)
        _ = session.reset(0, code: 7)
        _ = session.reset(1, code: 7, after: .milliseconds(1))
        #expect(session.machine.deadline == session.start + .milliseconds(10))
        _ = session.tick(after: .milliseconds(10))
        _ = session.reset(2, code: 7, after: .milliseconds(11))
        #expect(session.machine.free == 10)
    }

    @Test func `refusals of requests that crossed a lower limit do not keep the session small`() {
        var session = SessionFixture(inFlight: Array(1...100), limit: 1000)
        _ = session.tell { $0.limitChanged(to: 1, &$1) }
        for slot in 1..<100 { _ = session.reset(slot, code: 7) }
        _ = session.tick(after: .milliseconds(10))
        _ = session.tell { $0.limitChanged(to: 1000, &$1) }
        #expect(session.machine.capacity == 901)
    }

    @Test func `each refused stream takes one away, a second pause without a response all but one, and responses return them`() {
        var limits = SessionMachine.Limits()
        limits.maxConcurrentStreams = 4
        var session = SessionFixture(inFlight: [1, 2], limits: limits)
        _ = session.reset(0, code: 7)
        _ = session.tick(after: .milliseconds(10))
        #expect(session.machine.capacity == 3)
        session.push(3, after: .milliseconds(10))
        _ = session.reset(0, code: 7, after: .milliseconds(10))
        _ = session.tick(after: .milliseconds(30))
        #expect(session.machine.capacity == 1)
        #expect(session.machine.free == 0)
        _ = session.answer(1)
        for step in 2...24 {
            session.push(4, after: .milliseconds(30))
            _ = session.answer(1)
            #expect(session.machine.capacity == min(4, 1 + step / SessionMachine.answersPerStream))
        }
        #expect(session.machine.free == 4)
    }

    @Test func `a server that refuses everything gets a burst, and then few requests`() {
        let roundTrip = Duration.milliseconds(20)
        var sessions = [SessionFixture(limit: 1000), SessionFixture(limit: 1000)]
        var open = [[(slot: Int, until: Duration)]](repeating: [], count: 2)
        // Of each second after the first round trip.
        var requests = [Int](repeating: 0, count: 10)
        for step in 0..<10_000 {
            let clock = Duration.milliseconds(step)
            for index in sessions.indices {
                _ = sessions[index].tick(after: clock)
                let refused = open[index].prefix { $0.until <= clock }
                open[index].removeFirst(refused.count)
                for (slot, _) in refused { _ = sessions[index].reset(slot, code: 7, after: clock) }
                while sessions[index].machine.free > 0 {
                    let slot = sessions[index].machine.accepted(1, now: sessions[index].start + clock)
                    sessions[index].machine.opened(StreamID(2 * slot + 1), at: slot)
                    open[index].append((slot, clock + roundTrip))
                    if clock > roundTrip { requests[step / 1000] += 1 }
                }
            }
        }
        // The second burst follows a pause of 10 ms.
        #expect(requests[0] <= 2 * 1000 + 20)
        #expect(requests.dropFirst().allSatisfy { (1...4).contains($0) }, "\(requests)")
    }

    @Test func `a request that was never sent or another code causes no pause`() {
        var session = SessionFixture(inFlight: [1, 2], limit: 10)
        _ = session.reset(0, code: 7, wasSent: false)
        _ = session.reset(1, code: 2)
        #expect(session.machine.free == 10)
    }

    @Test func `a slow start has few streams, and one more for every six answers, up to the limit`() {
        var limits = SessionMachine.Limits()
        limits.startsSlowly = true
        limits.maxConcurrentStreams = 12
        var session = SessionFixture(limit: 1000, limits: limits)
        #expect(session.machine.free == 10)
        #expect(session.machine.capacity == 10)
        for (answers, capacity) in [(5, 10), (6, 11), (11, 11), (12, 12), (30, 12)] {
            while session.answers < answers {
                session.push(UInt64(session.answers))
                _ = session.answer(0)
                session.answers += 1
            }
            #expect(session.machine.capacity == capacity, "after \(answers)")
        }
        #expect(SessionFixture(limit: 3, limits: limits).machine.capacity == 3)
    }

    @Test func `written requests that a broken connection leaves open are counted, those of our own close are not`() {
        var broken = SessionFixture(inFlight: [1, 2, 3])
        _ = broken.close(SessionFixture.lost, written: [0, 2])
        #expect(broken.machine.unanswered == 2)
        var closed = SessionFixture(inFlight: [1, 2, 3])
        _ = closed.close(.closedByUs, written: [0, 2])
        #expect(closed.machine.unanswered == 0)
    }

    @Test func `an answer on a stream that is not there is nothing`() {
        var session = SessionFixture(inFlight: [7])
        #expect(session.tell { $0.answered(SessionFixture.delivered, stream: 99, at: 0, &$1) } == [])
        #expect(session.tell { $0.answered(SessionFixture.delivered, stream: 1, at: 50, &$1) } == [])
        #expect(session.tell { $0.answered(SessionFixture.delivered, stream: 1, at: -1, &$1) } == [])
    }

    @Test func `only a refused stream and one never sent are certainly not processed`() {
        var session = SessionFixture(inFlight: [1, 2, 3])
        #expect(session.reset(0, code: 7) == [.report(1, .notProcessed(.streamReset(code: 7)))])
        #expect(session.reset(1, code: 8) == [.report(2, .maybeProcessed(.streamReset(code: 8)))])
        #expect(session.reset(2, code: 2, wasSent: false) == [.report(3, .notProcessed(.streamReset(code: 2)))])
    }

    @Test func `a cancelled attempt is reset, and reported when its stream has ended`() {
        var session = SessionFixture(inFlight: [1, 2, 3])
        #expect(session.tell { $0.cancelled([2, 9], &$1) } == [.cancel(3)])
        #expect(session.reset(1, code: 8) == [.report(2, .maybeProcessed(.streamReset(code: 8)))])
        #expect(session.tell { $0.cancelled([2], &$1) } == [])
    }

    @Test func `a limit below what is open frees nothing until enough is answered`() {
        var session = SessionFixture(inFlight: [1, 2, 3])
        #expect(session.tell { $0.limitChanged(to: 1, &$1) } == [.capacityChanged])
        #expect(session.machine.free == 0)
        _ = session.answer(0)
        _ = session.answer(1)
        #expect(session.machine.free == 0)
        _ = session.answer(2)
        #expect(session.machine.free == 1)
        #expect(session.tell { $0.limitChanged(to: 1, &$1) } == [])
        #expect(session.tell { $0.limitChanged(to: 0, &$1) } == [.capacityChanged])
        #expect(session.machine.free == 0)
        #expect(session.machine.capacity == 0)
    }

    @Test func `HTTP/2 that opens no stream retires the session`() {
        var session = SessionFixture()
        let slot = session.machine.accepted(4, now: session.start)
        let effects = session.tell { $0.notOpened(at: slot, &$1) }
        #expect(effects.first == .report(4, .notProcessed(.connectionLost("no stream could be opened"))))
        #expect(effects.dropFirst() == [.retire, .disconnect(.retired(.usedUp))])
    }

    @Test func `a peer that admits no more bytes is replaced when no request is open`() {
        var session = SessionFixture(inFlight: [1])
        session.observe(hasWindow: false)
        #expect(session.machine.deadline == session.start + .seconds(15))  // Of the request.
        _ = session.answer(0)
        session.observe(hasWindow: false, after: .seconds(1))
        session.observe(hasWindow: false, after: .seconds(9))
        #expect(session.machine.deadline == session.start + .seconds(16))
        #expect(session.tick(after: .seconds(16)) == [.retire, .disconnect(.retired(.noWindow))])
    }

    @Test func `it is kept if it admits bytes in time`() {
        var session = SessionFixture()
        session.observe(hasWindow: false)
        session.observe(hasWindow: true, after: .seconds(14))
        #expect(session.tick(after: .seconds(15)) == [])
        #expect(session.machine.deadline == session.start + .seconds(60))
    }

    @Test func `it retires before stream identifiers run out`() {
        var limits = SessionMachine.Limits()
        limits.maxRequests = 2
        var session = SessionFixture(inFlight: [1], limits: limits)
        #expect(session.tick(after: .zero) == [])
        session.push(2)
        #expect(session.machine.free == 0)
        #expect(session.tick(after: .zero) == [.retire])
        #expect(session.answer(0) == [.report(1, SessionFixture.delivered)])
        #expect(session.answer(1) == [.report(2, SessionFixture.delivered), .disconnect(.retired(.usedUp))])
    }

    @Test(arguments: [(400, "IdleTimeout"), (503, "Shutdown")])
    func `a response that announces the end retires the session, as GOAWAY does`(status: Int, reason: String) {
        var session = SessionFixture(inFlight: [1, 2])
        let sessionEnd = Outcome.rejected(Rejection(status: status, reason: reason))
        #expect(session.tell { $0.answered(sessionEnd, stream: 1, at: 0, &$1) } == [.report(1, sessionEnd), .retire])
        #expect(session.answer(1) == [.report(2, SessionFixture.delivered), .disconnect(.retired(.shutdownAnnounced))])
    }

    @Test func `three consecutive responses of 500 retire it, and any other response resets the count`() {
        var session = SessionFixture(inFlight: [1, 2, 3, 4, 5, 6, 7])
        let error = Outcome.rejected(Rejection(status: 500, reason: "InternalServerError"))
        func fail(_ slot: Int) -> [SessionMachine.Effect] {
            session.tell { $0.answered(error, stream: StreamID(2 * slot + 1), at: slot, &$1) }
        }
        #expect(fail(0) == [.report(1, error)])
        #expect(fail(1) == [.report(2, error)])
        #expect(session.answer(2) == [.report(3, SessionFixture.delivered)])
        #expect(fail(3) == [.report(4, error)])
        #expect(fail(4) == [.report(5, error)])
        #expect(fail(5) == [.report(6, error), .retire])
        #expect(session.answer(6) == [.report(7, SessionFixture.delivered), .disconnect(.retired(.serverErrors))])
    }
}
