import Clocks
import Testing

@testable import RedisQueue

/// The claim behind the wait.
extension QueueMachineTests {
    /// The answer of a claim that rode behind a wait.
    mutating func arrive(_ jobs: [String], first: ClaimID, drained: Int64) {
        let head: [RedisReply] = [.integer(drained), .integer(0), .integer(0), .integer(0), .integer(0)]
        answer(.ride(first: first, count: 32, fromSecond: 32, after: 0), head + jobs.map { .string(bytes($0)) })
    }

    mutating func answerWait(_ job: String?, at now: Instant = start) {
        machine.answered(.wait, job.map { .string(bytes($0)) } ?? .null, sentAt: now, now: now) { _ in false }
    }

    mutating func waitsEmptyHanded() {
        serve()
        machine.offer(places: 100, now: start)
        machine.advance(now: start)
        claim([], asked: 100, drained: 1)
        machine.advance(now: start)
        machine.effects = []
    }

    @Test mutating func `a wait in vain is followed by a claim in vain, and by the next wait`() {
        waitsEmptyHanded()
        answerWait(nil)
        machine.advance(now: start)
        #expect(effects().isEmpty)
        arrive([], first: 1, drained: 1)
        machine.advance(now: start)
        #expect(effects() == [.wait(.ride(first: 1, count: 32, fromSecond: 32, after: 0))])
    }

    @Test mutating func `a wait begins without a claim while a job that is cut is on its way back`() {
        serve()
        machine.offer(places: 100, now: start)
        machine.advance(now: start)
        _ = effects()
        claim(["many"], asked: 100, drained: 1)
        machine.settle(Settlement(id: 1, effect: .split(into: [bytes("a"), bytes("b")])), now: start)
        machine.advance(now: start)
        #expect(effects().contains(.wait(nil)))
    }

    @Test mutating func `jobs that were claimed behind a wait and do not come mean a new connection, others' fields do not`() {
        serve()
        machine.foreignFields = 1
        machine.offer(places: 100, now: start)
        machine.advance(now: start)
        claim([], asked: 100, drained: 1)
        machine.advance(now: start)
        machine.effects = []
        var now = start
        /// The answers to all looks until one of them counts.
        func look(_ machine: inout QueueMachine, held: Int64) {
            while machine.phase == .serving {
                now += .milliseconds(100)
                machine.advance(now: now)
                for case .call(let call) in machine.effects {
                    let reply: RedisReply =
                        if case .beat = call { .array([.integer(0), .integer(-1)]) } else {
                            .integer(call == .countHeld ? held : 0)
                        }
                    machine.answered(call, reply, sentAt: now, now: now) { _ in false }
                    if call == .countHeld {
                        machine.effects = []
                        return
                    }
                }
                machine.effects = []
            }
        }
        for held: Int64 in [1, 2, 1] { look(&machine, held: held) }
        #expect(machine.phase == .serving)
        look(&machine, held: 2)
        #expect(machine.phase == .serving)
        look(&machine, held: 2)
        #expect(machine.phase == .resting)
    }

    @Test mutating func `a claim behind a wait that meets a worker who has left means nothing`() {
        waitsEmptyHanded()
        machine.stop()
        machine.advance(now: start)
        #expect(effects() == [.call(.unregister)])
        answerWait("a")
        machine.answered(
            .ride(first: 1, count: 32, fromSecond: 32, after: 0), .string(bytes("FENCED")), sentAt: start, now: start
        ) { _ in false }
        #expect(effects().isEmpty)
        machine.answered(.unregister, .integer(0), sentAt: start, now: start) { _ in false }
        #expect(effects() == [.hangUp, .report(.stopped)])
    }

    @Test mutating func `a job that came behind a wait while the worker was leaving is given back`() {
        waitsEmptyHanded()
        machine.stop()
        machine.advance(now: start)
        #expect(effects() == [.call(.unregister)])
        answerWait("a")
        arrive(["a"], first: 1, drained: 1)
        machine.answered(.unregister, .integer(1), sentAt: start, now: start) { _ in false }
        #expect(effects() == [.call(.fields)])
        answer(.fields, [.string(bytes("1"))])
        answer(.fetch(["1"]), [.string(bytes("a"))])
        machine.effects = []
        machine.advance(now: start)
        guard case .call(.settle(let batch))? = effects().last else {
            Issue.record("it was not given back")
            return
        }
        answer(.settle(batch), [.integer(1), .integer(0), .integer(-2), .integer(0)])
        machine.advance(now: start)
        #expect(effects() == [.call(.unregister)])
    }
}
