import Clocks
import Testing

@testable import RedisQueue

let start = Instant.now

@Suite("What the queue says next")
struct QueueMachineTests {
    var machine = QueueMachine(
        settings: QueueSettings(list: "q", server: .unix(path: "/nowhere")), worker: "me", seed: 7, now: start)

    mutating func effects() -> [QueueMachine.Effect] {
        defer { machine.effects = [] }
        return machine.effects
    }

    mutating func answer(_ call: Call, _ items: [RedisReply], at now: Instant = start) {
        machine.answered(call, .array(items), sentAt: now, now: now) { _ in false }
    }

    mutating func serve() {
        machine.advance(now: start)
        machine.connected()
        let registration = Call.register(.init(counter: machine.counter, confirmed: 0, isExpected: machine.isRegistered))
        answer(registration, [.integer(0), .string(bytes("-1")), .string(bytes("mark")), .integer(0), .integer(-1), .integer(0)])
        machine.answered(.info, .string(bytes("aof_enabled:1\r\n")), sentAt: start, now: start) { _ in false }
        answer(.fields, [])
        machine.effects = []
    }

    mutating func claim(_ jobs: [String], first: ClaimID = 1, asked: Int, drained: Int64, urgency: Int64 = 0) {
        let head: [RedisReply] = [.integer(drained), .integer(0), .integer(0), .integer(0), .integer(urgency)]
        answer(.claim(first: first, count: asked, fromSecond: 32), head + jobs.map { .string(bytes($0)) })
    }

    @Test mutating func `it dials, registers, compares, and only then reports that it is connected`() {
        machine.advance(now: start)
        #expect(effects() == [.dial])
        machine.connected()
        #expect(effects() == [.call(.register(.init(counter: 1, confirmed: 0, isExpected: false)))])
        answer(
            .register(.init(counter: 1, confirmed: 0, isExpected: false)),
            [.integer(0), .string(bytes("-1")), .string(bytes("mark")), .integer(0), .integer(-1), .integer(0)])
        #expect(effects() == [.call(.info), .call(.fields)])
        machine.answered(.info, .error("NOPERM no"), sentAt: start, now: start) { _ in false }
        #expect(effects().isEmpty)
        answer(.fields, [])
        #expect(effects() == [.report(.connected(warnings: []))])
        #expect(machine.phase == .serving)
    }

    @Test mutating func `while a job that was cut into parts is on its way back, nothing is claimed`() {
        serve()
        machine.offer(places: 1000, now: start)
        machine.advance(now: start)
        #expect(effects() == [.call(.claim(first: 1, count: 250, fromSecond: 32))])
        claim(["many", "one"], asked: 250, drained: 0)
        machine.settle(Settlement(id: 1, effect: .split(into: [bytes("a"), bytes("b")])), now: start)
        machine.offer(places: 1000, now: start)
        machine.advance(now: start)
        let later = effects()
        guard case .call(.settle(let batch)) = later.last else {
            Issue.record("\(later)")
            return
        }
        machine.offer(places: 1000, now: start)
        machine.advance(now: start + .milliseconds(10))
        #expect(effects().isEmpty)
        answer(.settle(batch), [.integer(1), .integer(0), .integer(-2), .integer(0)])
        machine.advance(now: start + .milliseconds(10))
        #expect(effects() == [.call(.claim(first: 3, count: 250, fromSecond: 32))])
    }

    @Test mutating func `a replaced job does not stop the claims`() {
        serve()
        machine.offer(places: 1000, now: start)
        machine.advance(now: start)
        claim(["marked", "next"], asked: 250, drained: 0)
        machine.settle(Settlement(id: 1, effect: .replace(with: bytes("m"), toTail: true)), now: start)
        _ = effects()
        machine.offer(places: 1000, now: start)
        machine.advance(now: start + .milliseconds(10))
        #expect(effects().contains(.call(.claim(first: 3, count: 250, fromSecond: 32))))
    }

    @Test mutating func `few places wait two milliseconds, many are claimed at once`() {
        serve()
        machine.offer(places: 3, now: start)
        machine.advance(now: start)
        #expect(effects().isEmpty)
        #expect(machine.deadline == start + .milliseconds(2))
        machine.advance(now: start + .milliseconds(2))
        #expect(effects() == [.call(.claim(first: 1, count: 3, fromSecond: 32))])
        claim([], asked: 3, drained: 0)
        machine.offer(places: 5000, now: start)
        machine.advance(now: start)
        #expect(effects() == [.call(.claim(first: 1, count: 250, fromSecond: 32))])
    }

    @Test mutating func `it waits with the second connection only after the list was seen empty`() {
        serve()
        machine.offer(places: 100, now: start)
        machine.advance(now: start)
        #expect(effects() == [.call(.claim(first: 1, count: 100, fromSecond: 32))])
        claim(["a"], asked: 100, drained: 1)
        machine.advance(now: start)
        let ride = Call.ride(first: 2, count: 32, fromSecond: 32, after: 0)
        #expect(effects() == [.report(.claimed([ClaimedJob(id: 1, bytes: bytes("a"))])), .wait(ride)])
        machine.advance(now: start + .milliseconds(400))
        #expect(effects().isEmpty)
        answerWait("b")
        // What rode behind the wait is answered next: another claim now would want the same places.
        machine.advance(now: start)
        #expect(effects().isEmpty)
        arrive(["b"], first: 2, drained: 0)
        machine.advance(now: start)
        let more = Call.claim(first: 3, count: 98, fromSecond: 32)
        #expect(effects() == [.report(.claimed([ClaimedJob(id: 2, bytes: bytes("b"))])), .call(more)])
    }

    @Test mutating func `after half a second of silence it asks how long the list is, and claims when that is news`() {
        serve()
        machine.offer(places: 100, now: start)
        machine.advance(now: start)
        claim([], asked: 100, drained: 1)
        machine.advance(now: start)
        _ = effects()
        var later = start
        // How much it holds by Redis' word, it asks between: the claim behind the wait may have been answered into nothing.
        for (call, length): (Call, Int64) in [(.look, 0), (.countHeld, 0), (.look, 1)] {
            later += .milliseconds(900)
            #expect(machine.deadline == later)
            machine.advance(now: later)
            #expect(effects() == [.call(call)])
            machine.answered(call, .integer(length), sentAt: later, now: later) { _ in false }
            if length == 0 {
                machine.advance(now: later)
                #expect(effects().isEmpty)
            }
        }
        machine.advance(now: later)
        #expect(effects() == [.call(.claim(first: 33, count: 100, fromSecond: 32))])
    }

    @Test mutating func `a job whose text is a word of the scripts is only a job`() {
        serve()
        machine.offer(places: 100, now: start)
        machine.advance(now: start)
        claim([], asked: 100, drained: 1)
        machine.advance(now: start)
        _ = effects()
        machine.answered(.wait, .string(bytes("FENCED")), sentAt: start, now: start) { _ in false }
        #expect(effects().isEmpty)
        #expect(machine.phase == .serving)
    }

    @Test mutating func `unanswered settlements are sent again with their numbers, before anything is compared`() {
        serve()
        machine.offer(places: 2, now: start)
        machine.advance(now: start + .milliseconds(2))
        claim(["a", "b"], asked: 2, drained: 0)
        machine.settle(Settlement(id: 1, effect: .ack), now: start)
        machine.advance(now: start)
        guard case .call(.settle(let batch))? = effects().last else {
            Issue.record("no settlement")
            return
        }
        #expect(batch.sequence == 1)
        machine.lost("cut", now: start)
        #expect(effects() == [.hangUp, .report(.disconnected("cut"))])
        machine.advance(now: start + .seconds(3))
        machine.connected()
        _ = effects()
        let registration = Call.register(.init(counter: 2, confirmed: 0, isExpected: true))
        answer(registration, [.integer(1), .string(bytes("0")), .string(bytes("mark")), .integer(0), .integer(-1), .integer(0)])
        #expect(effects() == [.call(.settle(batch)), .call(.fields)])
        answer(.settle(batch), [.integer(0), .integer(0), .integer(-2)])
        answer(.fields, [.string(bytes("2")), .string(bytes("9")), .string(bytes("rubbish"))])
        // 2 is held, 1 is settled, and the others were never given out.
        #expect(effects() == [.report(.connected(warnings: []))])
    }

    @Test mutating func `what Redis holds and we do not is fetched, and what we hold alone is disowned`() {
        serve()
        machine.offer(places: 3, now: start)
        machine.advance(now: start + .milliseconds(2))
        machine.lost("cut", now: start)
        machine.advance(now: start + .seconds(3))
        machine.connected()
        let registration = Call.register(.init(counter: 2, confirmed: 0, isExpected: true))
        let welcome: [RedisReply] = [
            .integer(1), .string(bytes("0")), .string(bytes("mark")), .integer(0), .integer(-1), .integer(0),
        ]
        answer(registration, welcome)
        _ = effects()
        answer(.fields, [.string(bytes("3")), .string(bytes("1:2"))])
        #expect(effects() == [.call(.fetch(["1:2", "3"]))])
        answer(.fetch(["1:2", "3"]), [.string(bytes("a")), .string(bytes("c"))])
        #expect(
            effects() == [
                .report(.claimed([ClaimedJob(id: 1, bytes: bytes("a")), ClaimedJob(id: 3, bytes: bytes("c"))])),
                .report(.connected(warnings: [])),
            ])
        machine.lost("cut", now: start)
        machine.advance(now: start + .seconds(3))
        machine.connected()
        answer(registration, welcome)
        _ = effects()
        answer(.fields, [.string(bytes("1:2"))])
        #expect(effects() == [.report(.disowned([3])), .report(.connected(warnings: []))])
    }

    @Test mutating func `a job that must be alone stops the claims until nothing else is held`() {
        serve()
        machine.offer(places: 100, now: start)
        machine.advance(now: start)
        claim(["a"], asked: 100, drained: 1, urgency: 2)
        machine.advance(now: start)
        _ = effects()
        machine.advance(now: start + .milliseconds(400))
        #expect(effects().isEmpty)
        machine.settle(Settlement(id: 1, effect: .ack), now: start + .milliseconds(400))
        machine.advance(now: start + .milliseconds(400))
        guard case .call(.settle(let batch))? = effects().last else {
            Issue.record("no settlement")
            return
        }
        answer(.settle(batch), [.integer(1), .integer(0), .integer(-2)], at: start + .milliseconds(401))
        machine.advance(now: start + .milliseconds(401))
        #expect(effects().contains(.call(.claim(first: 2, count: 99, fromSecond: 32))))
    }

    @Test mutating func `without a confirmed beat for 60 percent of the lease nothing more goes on the wire`() {
        serve()
        machine.advance(now: start + .seconds(3))
        #expect(effects() == [.call(.beat(counter: 2))])
        machine.advance(now: start + .milliseconds(8999))
        #expect(effects().isEmpty)
        machine.offer(places: 100, now: start + .seconds(9))
        machine.advance(now: start + .seconds(9))
        #expect(effects() == [.report(.leaseInDoubt)])
        answer(.beat(counter: 2), [.integer(0), .integer(-1)], at: start + .seconds(10))
        #expect(effects() == [.report(.connected(warnings: []))])
    }

    @Test mutating func `stopping without a connection and with nothing held ends at once`() {
        machine.advance(now: start)
        machine.lost("away", now: start)
        machine.stop()
        _ = effects()
        machine.advance(now: start)
        #expect(effects() == [.hangUp, .report(.stopped)])
        machine.lost("again", now: start)
        #expect(effects().isEmpty)
        #expect(machine.deadline == nil)
    }

    @Test mutating func `the same failure is reported once, and the pauses grow to two seconds`() {
        var now = start
        var reports = 0
        for _ in 0..<20 {
            machine.advance(now: now)
            machine.lost("away", now: now)
            guard let next = machine.deadline else { return }
            #expect(next - now >= .milliseconds(25))
            #expect(next - now <= .seconds(2))
            now = next
            reports += effects().count { $0 == .report(.disconnected("away")) }
        }
        #expect(reports == 1)
        #expect(now - start > .seconds(10))
    }
}
