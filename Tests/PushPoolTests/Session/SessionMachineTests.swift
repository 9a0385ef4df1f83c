import SystemTime
import Testing

@testable import PushPool

private typealias Effect = SessionMachine.Effect

/// A machine with its effects collected, and requests on streams 1, 3, 5 … in slots 0, 1, 2 …
private struct Session {
    var machine: SessionMachine
    var effects: [Effect] = []
    var answers = 0
    let start = Instant.now

    init(inFlight ids: [UInt64] = [], limit: Int = 10, limits: SessionMachine.Limits = .init()) {
        machine = SessionMachine(limits: limits, peerLimit: limit, now: start)
        for id in ids { push(id) }
    }

    mutating func push(_ id: UInt64, after: Duration = .zero) {
        let slot = machine.accepted(id, now: start + after)
        machine.opened(StreamID(2 * slot + 1), at: slot)
    }

    /// The effects of one fact.
    mutating func tell(_ fact: (inout SessionMachine, inout [Effect]) -> Void) -> [Effect] {
        effects = []
        fact(&machine, &effects)
        return effects
    }

    mutating func tick(after: Duration) -> [Effect] { tell { [start] in $0.tick(now: start + after, &$1) } }

    mutating func observe(hasWindow: Bool, after: Duration = .zero) { machine.observed(hasWindow: hasWindow, now: start + after) }

    mutating func goAway(last: StreamID) -> [Effect] {
        tell { $0.receivedGoAway(last: last, code: 0, reason: "x", &$1) }
    }

    mutating func answer(_ slot: Int) -> [Effect] {
        tell { $0.answered(.delivered(apnsID: nil), stream: StreamID(2 * slot + 1), at: slot, &$1) }
    }

    mutating func reset(_ slot: Int, code: UInt32, wasSent: Bool = true, after: Duration = .zero) -> [Effect] {
        tell { [start] in
            $0.streamReset(
                code: code, wasSent: wasSent, stream: StreamID(2 * slot + 1), at: slot, now: start + after, &$1)
        }
    }

    mutating func pong(_ number: UInt64, after: Duration) -> [Effect] {
        tell { [start] in $0.pingAnswered(number, now: start + after, &$1) }
    }

    mutating func close(_ fault: SessionError, written: Set<Int> = []) -> [Effect] {
        tell { $0.closed(because: fault, isWritten: written.contains, &$1) }
    }
}

private let delivered = Outcome.delivered(apnsID: nil)
private let away = SessionError.goAway(code: 0, reason: "x")
private let lost = SessionError.connectionLost("cut")

@Suite("A session that is open")
struct OpenSessionTests {
    @Test func `it has as many free streams as the lower of two limits leaves`() {
        var limits = SessionMachine.Limits()
        limits.maxConcurrentStreams = 5
        #expect(Session(inFlight: [1, 2], limit: 10, limits: limits).machine.free == 3)
        #expect(Session(inFlight: [1, 2], limit: 3, limits: limits).machine.free == 1)
        #expect(Session(inFlight: [1, 2], limit: 2).machine.free == 0)
    }

    @Test func `an answer is reported and frees its stream`() {
        var session = Session(inFlight: [7], limit: 1)
        #expect(session.answer(0) == [.report(7, delivered)])
        #expect(session.machine.free == 1)
        #expect(session.answer(0) == [])
    }

    @Test func `a refused stream pauses the session, twice as long with each refusal in a row`() {
        var session = Session(limit: 10)
        var clock = Duration.zero
        for pause in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            session.push(1, after: clock)
            session.push(2, after: clock)
            _ = session.reset(0, code: 7, after: clock)
            // A second refusal during the pause does not extend it.
            _ = session.reset(1, code: 7, after: clock + .milliseconds(1))
            #expect(session.machine.free == 0)
            #expect(session.machine.deadline == session.start + clock + .milliseconds(pause))
            clock += .milliseconds(pause)
            _ = session.tick(after: clock)
            #expect(session.machine.free == 10)
        }
        // The slot that was freed last is used first.
        session.push(3, after: clock)
        _ = session.answer(1)
        session.push(4, after: clock)
        _ = session.reset(1, code: 7, after: clock)
        #expect(session.machine.deadline == session.start + clock + .milliseconds(10), "a response ends the row")
    }

    @Test func `a request that was never sent or another code causes no pause`() {
        var session = Session(inFlight: [1, 2], limit: 10)
        _ = session.reset(0, code: 7, wasSent: false)
        _ = session.reset(1, code: 2)
        #expect(session.machine.free == 10)
    }

    @Test func `a slow start has few streams, and one more for every six answers, up to the limit`() {
        var limits = SessionMachine.Limits()
        limits.startsSlowly = true
        limits.maxConcurrentStreams = 12
        var session = Session(limit: 1000, limits: limits)
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
        #expect(Session(limit: 3, limits: limits).machine.capacity == 3)
    }

    @Test func `written requests that a broken connection leaves open are counted, those of our own close are not`() {
        var broken = Session(inFlight: [1, 2, 3])
        _ = broken.close(lost, written: [0, 2])
        #expect(broken.machine.unanswered == 2)
        var closed = Session(inFlight: [1, 2, 3])
        _ = closed.close(.closedByUs, written: [0, 2])
        #expect(closed.machine.unanswered == 0)
    }

    @Test func `an answer on a stream that is not there is nothing`() {
        var session = Session(inFlight: [7])
        #expect(session.tell { $0.answered(delivered, stream: 99, at: 0, &$1) } == [])
        #expect(session.tell { $0.answered(delivered, stream: 1, at: 50, &$1) } == [])
        #expect(session.tell { $0.answered(delivered, stream: 1, at: -1, &$1) } == [])
    }

    @Test func `only a refused stream and one never sent are certainly not processed`() {
        var session = Session(inFlight: [1, 2, 3])
        #expect(session.reset(0, code: 7) == [.report(1, .notProcessed(.streamReset(code: 7)))])
        #expect(session.reset(1, code: 8) == [.report(2, .maybeProcessed(.streamReset(code: 8)))])
        #expect(session.reset(2, code: 2, wasSent: false) == [.report(3, .notProcessed(.streamReset(code: 2)))])
    }

    @Test func `a cancelled attempt is reset, and reported when its stream has ended`() {
        var session = Session(inFlight: [1, 2, 3])
        #expect(session.tell { $0.cancelled([2, 9], &$1) } == [.cancel(3)])
        #expect(session.reset(1, code: 8) == [.report(2, .maybeProcessed(.streamReset(code: 8)))])
        #expect(session.tell { $0.cancelled([2], &$1) } == [])
    }

    @Test func `a limit below what is open frees nothing until enough is answered`() {
        var session = Session(inFlight: [1, 2, 3])
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
        var session = Session()
        let slot = session.machine.accepted(4, now: session.start)
        let effects = session.tell { $0.notOpened(at: slot, &$1) }
        #expect(effects.first == .report(4, .notProcessed(.connectionLost("no stream could be opened"))))
        #expect(effects.dropFirst() == [.retire, .disconnect(.retired(.usedUp))])
    }

    @Test func `a peer that admits no more bytes is replaced when no request is open`() {
        var session = Session(inFlight: [1])
        session.observe(hasWindow: false)
        #expect(session.machine.deadline == session.start + .seconds(15))  // Of the request.
        _ = session.answer(0)
        session.observe(hasWindow: false, after: .seconds(1))
        session.observe(hasWindow: false, after: .seconds(9))
        #expect(session.machine.deadline == session.start + .seconds(16))
        #expect(session.tick(after: .seconds(16)) == [.retire, .disconnect(.retired(.noWindow))])
    }

    @Test func `it is kept if it admits bytes in time`() {
        var session = Session()
        session.observe(hasWindow: false)
        session.observe(hasWindow: true, after: .seconds(14))
        #expect(session.tick(after: .seconds(15)) == [])
        #expect(session.machine.deadline == session.start + .seconds(60))
    }

    @Test func `it retires before stream identifiers run out`() {
        var limits = SessionMachine.Limits()
        limits.maxRequests = 2
        var session = Session(inFlight: [1], limits: limits)
        #expect(session.tick(after: .zero) == [])
        session.push(2)
        #expect(session.machine.free == 0)
        #expect(session.tick(after: .zero) == [.retire])
        #expect(session.answer(0) == [.report(1, delivered)])
        #expect(session.answer(1) == [.report(2, delivered), .disconnect(.retired(.usedUp))])
    }

    @Test(arguments: [(400, "IdleTimeout"), (503, "Shutdown")])
    func `a response that announces the end retires the session, as GOAWAY does`(status: Int, reason: String) {
        var session = Session(inFlight: [1, 2])
        let farewell = Outcome.rejected(Rejection(status: status, reason: reason))
        #expect(session.tell { $0.answered(farewell, stream: 1, at: 0, &$1) } == [.report(1, farewell), .retire])
        #expect(session.answer(1) == [.report(2, delivered), .disconnect(.retired(.shutdownAnnounced))])
    }

    @Test func `three consecutive responses of 500 retire it, and any other response resets the count`() {
        var session = Session(inFlight: [1, 2, 3, 4, 5, 6, 7])
        let error = Outcome.rejected(Rejection(status: 500, reason: "InternalServerError"))
        func fail(_ slot: Int) -> [Effect] { session.tell { $0.answered(error, stream: StreamID(2 * slot + 1), at: slot, &$1) } }
        #expect(fail(0) == [.report(1, error)])
        #expect(fail(1) == [.report(2, error)])
        #expect(session.answer(2) == [.report(3, delivered)])
        #expect(fail(3) == [.report(4, error)])
        #expect(fail(4) == [.report(5, error)])
        #expect(fail(5) == [.report(6, error), .retire])
        #expect(session.answer(6) == [.report(7, delivered), .disconnect(.retired(.serverErrors))])
    }
}

@Suite("When the peer says GOAWAY")
struct GoAwayTests {
    @Test func `attempts above its last id are not processed, the others are heard out`() {
        var session = Session(inFlight: [10, 11, 12])
        #expect(session.goAway(last: 3) == [.report(12, .notProcessed(away)), .retire])
        #expect(session.machine.phase == .draining)
        #expect(session.machine.free == 0)
        #expect(session.answer(0) == [.report(10, delivered)])
        #expect(session.answer(1) == [.report(11, delivered), .disconnect(away)])
    }

    @Test func `a session with nothing in flight closes at once`() {
        var session = Session()
        #expect(session.goAway(last: 0) == [.retire, .disconnect(away)])
    }

    @Test func `the graceful one takes nothing away and a second one may`() {
        var session = Session(inFlight: [10, 11])
        #expect(session.goAway(last: .max) == [.retire])
        #expect(session.goAway(last: 1) == [.report(11, .notProcessed(away))])
        #expect(session.reset(1, code: 7) == [])
        #expect(session.answer(0) == [.report(10, delivered), .disconnect(away)])
    }

    @Test func `the connection that then closes was to be expected`() {
        var session = Session(inFlight: [10])
        _ = session.goAway(last: 1)
        #expect(session.tell { $0.connectionLost(lost, &$1) } == [.disconnect(away)])
        #expect(session.close(away, written: [0]) == [.report(10, .maybeProcessed(away))])
    }

    @Test func `a closed session does not hear it`() {
        var session = Session()
        _ = session.close(lost)
        #expect(session.goAway(last: 0) == [])
    }
}

@Suite("When a connection ends")
struct ConnectionEndTests {
    @Test func `written requests may be processed, unwritten ones are certainly not`() {
        var session = Session(inFlight: [1, 2, 3])
        #expect(session.tell { $0.connectionLost(lost, &$1) } == [.disconnect(lost)])
        let expected: [Effect] = [
            .report(1, .maybeProcessed(lost)), .report(2, .notProcessed(lost)), .report(3, .maybeProcessed(lost)),
        ]
        #expect(session.close(lost, written: [0, 2]) == expected)
        #expect(session.machine.phase == .closed)
    }

    @Test func `nothing is said twice afterwards`() {
        var session = Session(inFlight: [1])
        _ = session.close(lost, written: [0])
        #expect(session.answer(0) == [])
        #expect(session.reset(0, code: 7) == [])
        #expect(session.close(lost) == [])
        #expect(session.tick(after: .seconds(1000)) == [])
        #expect(session.pong(1, after: .zero) == [])
        #expect(session.tell { $0.connectionLost(lost, &$1) } == [])
        #expect(session.tell { $0.retire(because: .closedByUs, &$1) } == [])
        #expect(session.tell { $0.endedByOwner(&$1) } == [])
        #expect(session.tell { $0.limitChanged(to: 5, &$1) } == [])
        #expect(session.machine.deadline == nil)
        #expect(session.machine.free == 0)
    }

    @Test func `the owner's wish ends it at once, its drain when it is empty`() {
        var session = Session(inFlight: [1])
        #expect(session.tell { $0.retire(because: .closedByUs, &$1) } == [.retire])
        #expect(session.tell { $0.retire(because: .closedByUs, &$1) } == [])
        #expect(session.tell { $0.endedByOwner(&$1) } == [.disconnect(.closedByUs)])
        #expect(session.tell { $0.endedByOwner(&$1) } == [])
    }
}

@Suite("As time passes on a session")
struct SessionTimeTests {
    @Test func `an idle one is asked after a minute, a busy one after 15 seconds`() {
        var idle = Session()
        #expect(idle.machine.deadline == idle.start + .seconds(60))
        #expect(idle.tick(after: .seconds(59)) == [])
        #expect(idle.tick(after: .seconds(60)) == [.ping(1)])
        var limits = SessionMachine.Limits()
        limits.requestTimeout = .seconds(100)
        var busy = Session(inFlight: [1], limits: limits)
        #expect(busy.tick(after: .seconds(14)) == [])
        #expect(busy.tick(after: .seconds(15)) == [.ping(1)])
        #expect(busy.tick(after: .seconds(16)) == [])
    }

    @Test func `the silence of an idle hour is not held against its first push`() {
        var session = Session()
        session.push(1, after: .seconds(50))
        #expect(session.tick(after: .seconds(60)) == [])
        #expect(session.machine.deadline == session.start + .seconds(65))
    }

    @Test func `whatever is heard puts the question off`() {
        var session = Session()
        session.machine.heard(now: session.start + .seconds(30))
        #expect(session.tick(after: .seconds(60)) == [])
        #expect(session.tick(after: .seconds(90)) == [.ping(1)])
    }

    @Test func `a PING without an answer for 10 seconds ends it`() {
        var session = Session(inFlight: [1])
        _ = session.tick(after: .seconds(15))
        #expect(session.machine.deadline == session.start + .seconds(25))
        #expect(session.tick(after: .seconds(24)) == [])
        #expect(session.tick(after: .seconds(25)) == [.disconnect(.pingUnanswered)])
    }

    @Test func `only the answer to our own PING counts`() {
        var session = Session()
        #expect(session.pong(1, after: .zero) == [])
        _ = session.tick(after: .seconds(60))
        _ = session.pong(77, after: .seconds(61))
        #expect(session.tick(after: .seconds(70)) == [.disconnect(.pingUnanswered)])
    }

    @Test func `a request past its limit is given up when the PING proves the connection alive`() {
        var session = Session(inFlight: [1])
        session.push(2, after: .seconds(5))
        #expect(session.tick(after: .seconds(15)) == [.ping(1)])
        #expect(session.pong(1, after: .seconds(16)) == [.report(1, .timedOut), .cancel(1), .retire])
        #expect(session.machine.inFlight == 2)
        // The stream is closed when RST_STREAM has left; nothing is said of it again.
        #expect(session.reset(0, code: 8) == [])
        #expect(session.answer(1) == [.report(2, delivered), .disconnect(.retired(.requestIgnored))])
    }

    @Test func `a request that waits for TLS has no time limit until it leaves`() {
        var session = Session(inFlight: [10, 11, 12])
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
        #expect(session.close(lost, written: [1]) == [.report(12, .notProcessed(lost))])
    }

    @Test func `a session whose last request was given up closes`() {
        var session = Session(inFlight: [1])
        _ = session.tick(after: .seconds(15))
        let expected: [Effect] = [.report(1, .timedOut), .cancel(1), .retire, .disconnect(.retired(.requestIgnored))]
        #expect(session.pong(1, after: .seconds(16)) == expected)
    }

    @Test func `a request past its limit on a dead connection may be processed`() {
        var session = Session(inFlight: [1])
        _ = session.tick(after: .seconds(15))
        #expect(session.tick(after: .seconds(25)) == [.disconnect(.pingUnanswered)])
        #expect(session.close(.pingUnanswered, written: [0]) == [.report(1, .maybeProcessed(.pingUnanswered))])
    }
}

@Suite("Whatever a peer does, in any order")
struct SessionMachineRandomTests {
    @Test(arguments: 0..<50) func `every attempt ends exactly once`(round: Int) {
        var generator = Seeded(seed: UInt64(round) &+ 0x9E37_79B9_7F4A_7C15)
        var session = Session(limit: 20)
        var open: [UInt64] = []
        var ended: [UInt64] = []
        var clock = Duration.zero
        var slots: [Int: StreamID] = [:]
        var stream: StreamID = 1
        func take(_ effects: [Effect]) {
            for case .report(let id, _, _) in effects { ended.append(id) }
        }
        for step in 0..<400 {
            clock += .milliseconds(Int.random(in: 0...400, using: &generator))
            switch Int.random(in: 0..<12, using: &generator) {
            case 0..<5:
                guard session.machine.free > 0 else { break }
                let slot = session.machine.accepted(UInt64(step), now: session.start + clock)
                session.machine.opened(stream, at: slot)
                slots[slot] = stream
                stream += 2
                open.append(UInt64(step))
            case 5..<8:
                guard let (slot, stream) = slots.randomElement(using: &generator) else { break }
                take(session.tell { $0.answered(delivered, stream: stream, at: slot, &$1) })
                slots[slot] = nil
            case 8:
                guard let (slot, stream) = slots.randomElement(using: &generator) else { break }
                let time = session.start + clock
                take(session.tell { $0.streamReset(code: 7, wasSent: true, stream: stream, at: slot, now: time, &$1) })
                slots[slot] = nil
            case 9: take(session.tell { $0.limitChanged(to: Int.random(in: 0...20, using: &generator), &$1) })
            case 10:
                take(session.tick(after: clock))
                take(session.pong(UInt64.random(in: 0...5, using: &generator), after: clock))
            default:
                if Int.random(in: 0..<20, using: &generator) == 0 { take(session.goAway(last: StreamID(stream.number / 2))) }
            }
        }
        take(session.close(lost))
        #expect(ended.sorted() == open, "seed \(round)")
    }
}

/// SplitMix64: the same numbers for the same seed.
struct Seeded: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var z = state
        z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
        z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
        return z ^ (z >> 31)
    }
}
