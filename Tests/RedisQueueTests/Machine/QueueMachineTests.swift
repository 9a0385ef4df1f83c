import SystemTime
import Testing

@testable import RedisQueue

@Suite("The queue machine")
struct QueueMachineTests {
    var machine = MachineFixture()

    @Test mutating func `it dials, registers, compares, and only then reports that it is connected`() {
        machine.advance()
        #expect(machine.effects() == [.dial])
        machine.connected()
        #expect(machine.effects() == [.call(.register(.init(counter: 1, confirmed: 0, isExpected: false)))])
        machine.reply(
            [.integer(0), .string(bytes("-1")), .string(bytes("epoch")), .integer(0), .integer(-1), .integer(0), .integer(0)],
            to: .register(.init(counter: 1, confirmed: 0, isExpected: false)))
        #expect(machine.effects() == [.call(.info), .call(.fields)])
        machine.reply(.error(ErrorReply("NOPERM no")), to: .info)
        #expect(machine.effects().isEmpty)
        machine.reply([], to: .fields)
        #expect(machine.effects() == [.report(.connected(warnings: []))])
        #expect(machine.phase == .serving)
    }

    @Test mutating func `nothing is claimed until the parts of a split job are in the list`() {
        machine.serve()
        machine.offer(1000)
        machine.advance()
        #expect(machine.effects() == [.call(.claim(first: 1, count: 250, fromSecond: 32))])
        machine.claim(["many", "one"], asked: 250, drained: 0)
        machine.settle(1, .split(into: JobParts(prefix: [], ranges: [0..<1, 1..<2], suffix: [])))
        machine.offer(1000)
        machine.advance()
        let later = machine.effects()
        guard case .call(.settle(let batch)) = later.last else {
            Issue.record("\(later)")
            return
        }
        machine.offer(1000)
        machine.advance(to: start + .milliseconds(10))
        #expect(machine.effects().isEmpty)
        machine.reply([.integer(1), .integer(0), .integer(-2), .integer(0)], to: .settle(batch))
        machine.advance(to: start + .milliseconds(10))
        #expect(machine.effects() == [.call(.claim(first: 3, count: 250, fromSecond: 32))])
    }

    @Test mutating func `the number of records is reported at each multiple of the step of its list`() {
        machine.advance()
        machine.register(deadLetters: 9999, feedback: 123_456)
        machine.reply(.string(bytes("aof_enabled:1\r\n")), to: .info)
        machine.reply([], to: .fields)
        #expect(machine.effects().suffix(2) == [.report(.connected(warnings: [])), .report(.recordsMany(.feedback, 123_456))])
        #expect(settle(deadLetters: 0, feedback: 199_999) == [])
        #expect(settle(deadLetters: 10_000, feedback: 0) == [.report(.recordsMany(.deadLetters, 10_000))])
        #expect(settle(deadLetters: 19_999, feedback: 200_000) == [.report(.recordsMany(.feedback, 200_000))])
    }

    private mutating func settle(deadLetters: Int64, feedback: Int64) -> [QueueMachine.Effect] {
        let counts: [RedisReply] = [.integer(deadLetters), .integer(0), .integer(feedback)]
        machine.reply([.integer(1), .integer(0), .integer(-2)] + counts, to: .settle(SettleBatch()))
        return machine.effects()
    }

    @Test mutating func `a replaced job does not stop the claims`() {
        machine.serve()
        machine.offer(1000)
        machine.advance()
        machine.claim(["marked", "next"], asked: 250, drained: 0)
        machine.settle(1, .replace(with: bytes("m"), toTail: true))
        machine.effects()
        machine.offer(1000)
        machine.advance(to: start + .milliseconds(10))
        #expect(machine.effects().contains(.call(.claim(first: 3, count: 250, fromSecond: 32))))
    }

    @Test mutating func `few places wait two milliseconds, many are claimed at once`() {
        machine.serve()
        machine.offer(3)
        machine.advance()
        #expect(machine.effects().isEmpty)
        #expect(machine.deadline == start + .milliseconds(2))
        machine.advance(to: start + .milliseconds(2))
        #expect(machine.effects() == [.call(.claim(first: 1, count: 3, fromSecond: 32))])
        machine.claim([], asked: 3, drained: 0)
        machine.offer(5000)
        machine.advance()
        #expect(machine.effects() == [.call(.claim(first: 1, count: 250, fromSecond: 32))])
    }

    @Test mutating func `it waits with the second connection only after the list was seen empty`() {
        machine.serve()
        machine.offer(100)
        machine.advance()
        #expect(machine.effects() == [.call(.claim(first: 1, count: 100, fromSecond: 32))])
        machine.claim(["a"], asked: 100, drained: 1)
        machine.advance()
        let behind = Call.piggybackedClaim(first: 2, count: 32, fromSecond: 32, after: 0)
        #expect(machine.effects() == [.report(.claimed([ClaimedJob(id: 1, bytes: bytes("a"))])), .wait(behind)])
        machine.advance(to: start + .milliseconds(400))
        #expect(machine.effects().isEmpty)
        machine.wake("b")
        // The reply of the piggybacked claim comes next: another claim now would want the same places.
        machine.advance()
        #expect(machine.effects().isEmpty)
        machine.piggybackedClaim(["b"], first: 2, drained: 0)
        machine.advance()
        let more = Call.claim(first: 3, count: 98, fromSecond: 32)
        #expect(machine.effects() == [.report(.claimed([ClaimedJob(id: 2, bytes: bytes("b"))])), .call(more)])
    }

    @Test mutating func `after 0.9 s of silence it inspects the list, and claims if the list has jobs`() {
        machine.serve()
        machine.offer(100)
        machine.advance()
        machine.claim([], asked: 100, drained: 1)
        machine.advance()
        machine.effects()
        var later = start
        // Every second inspection counts the hash, because the reply of the piggybacked claim may be lost.
        for (call, length): (Call, Int64) in [(.inspect, 0), (.countHeld, 0), (.inspect, 1)] {
            later += .milliseconds(900)
            #expect(machine.deadline == later)
            machine.advance(to: later)
            #expect(machine.effects() == [.call(call)])
            machine.reply(.integer(length), to: call, at: later)
            if length == 0 {
                machine.advance(to: later)
                #expect(machine.effects().isEmpty)
            }
        }
        machine.advance(to: later)
        #expect(machine.effects() == [.call(.claim(first: 33, count: 100, fromSecond: 32))])
    }

    @Test mutating func `a job with the text FENCED is only a job`() {
        machine.serve()
        machine.offer(100)
        machine.advance()
        machine.claim([], asked: 100, drained: 1)
        machine.advance()
        machine.effects()
        machine.reply(.string(bytes("FENCED")), to: .wait)
        #expect(machine.effects().isEmpty)
        #expect(machine.phase == .serving)
    }

    @Test mutating func `unanswered settlements are sent again with their numbers, before the hash is compared`() {
        machine.serve()
        machine.offer(2)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b"], asked: 2, drained: 0)
        machine.settle(1, .ack)
        machine.advance()
        guard case .call(.settle(let batch))? = machine.effects().last else {
            Issue.record("no settlement")
            return
        }
        #expect(batch.sequence == 1)
        machine.lost("cut")
        #expect(machine.effects() == [.hangUp, .report(.disconnected("cut"))])
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "0", counter: 2, isExpected: true)
        #expect(machine.effects().dropFirst() == [.call(.settle(batch)), .call(.fields)])
        machine.reply([.integer(0), .integer(0), .integer(-2)], to: .settle(batch))
        machine.reply([.string(bytes("2")), .string(bytes("9")), .string(bytes("rubbish"))], to: .fields)
        // 2 is held, 1 is settled, and the other ids were never reserved.
        #expect(machine.effects() == [.report(.connected(warnings: []))])
    }

    @Test mutating func `jobs that only Redis knows are fetched, and jobs that only the worker knows are disowned`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.register(settled: "0", counter: 2, isExpected: true)
        machine.effects()
        machine.reply([.string(bytes("3")), .string(bytes("1:2"))], to: .fields)
        #expect(machine.effects() == [.call(.fetch(["1:2", "3"]))])
        machine.reply([.string(bytes("a")), .string(bytes("c"))], to: .fetch(["1:2", "3"]))
        #expect(
            machine.effects() == [
                .report(.claimed([ClaimedJob(id: 1, bytes: bytes("a")), ClaimedJob(id: 3, bytes: bytes("c"))])),
                .report(.connected(warnings: [])),
            ])
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.register(settled: "0", counter: 3, isExpected: true)
        machine.effects()
        machine.reply([.string(bytes("1:2"))], to: .fields)
        #expect(machine.effects() == [.report(.disowned([3])), .report(.connected(warnings: []))])
    }

    @Test mutating func `a job that must be alone stops the claims until no other job is held`() {
        machine.serve()
        machine.offer(100)
        machine.advance()
        machine.claim(["a"], asked: 100, drained: 1, recovered: 2)
        machine.advance()
        machine.effects()
        machine.advance(to: start + .milliseconds(400))
        #expect(machine.effects().isEmpty)
        machine.settle(1, .ack, at: start + .milliseconds(400))
        machine.advance(to: start + .milliseconds(400))
        guard case .call(.settle(let batch))? = machine.effects().last else {
            Issue.record("no settlement")
            return
        }
        machine.reply([.integer(1), .integer(0), .integer(-2)], to: .settle(batch), at: start + .milliseconds(401))
        machine.advance(to: start + .milliseconds(401))
        #expect(machine.effects().contains(.call(.claim(first: 2, count: 99, fromSecond: 32))))
    }

    @Test mutating func `without a confirmed beat for 60 percent of the lease the lease is in doubt`() {
        machine.serve()
        machine.advance(to: start + .seconds(3))
        #expect(machine.effects() == [.call(.beat(counter: 2))])
        machine.advance(to: start + .milliseconds(8999))
        #expect(machine.effects() == [.call(.beat(counter: 3))])
        machine.offer(100, at: start + .milliseconds(8999))
        machine.advance(to: start + .seconds(9))
        #expect(machine.effects().contains(.report(.leaseInDoubt)))
        machine.reply([.integer(0), .integer(-1)], to: .beat(counter: 2), at: start + .seconds(10))
        #expect(machine.effects() == [.report(.connected(warnings: []))])
    }

    @Test mutating func `held jobs may be sent until 60 percent of the lease have passed without a confirmed beat`() {
        #expect(machine.sendingDeadline == nil)
        machine.serve()
        #expect(machine.sendingDeadline == start + .seconds(9))
        machine.advance(to: start + .seconds(3))
        #expect(machine.sendingDeadline == start + .seconds(9))
        machine.reply([.integer(0), .integer(-1)], to: .beat(counter: 2), at: start + .seconds(3))
        #expect(machine.sendingDeadline == start + .seconds(12))
        machine.advance(to: start + .seconds(12))
        #expect(machine.sendingDeadline == nil, "the event `leaseInDoubt` withdraws the jobs")
    }

    @Test mutating func `stopping without a connection and with nothing held ends at once`() {
        machine.advance()
        machine.lost("away")
        machine.stop()
        machine.effects()
        machine.advance()
        #expect(machine.effects() == [.hangUp, .report(.stopped)])
        machine.lost("again")
        #expect(machine.effects().isEmpty)
        #expect(machine.deadline == nil)
    }

    @Test mutating func `the same failure is reported once, and the pauses grow to two seconds`() {
        var now = start
        var reports = 0
        for _ in 0..<20 {
            machine.advance(to: now)
            machine.lost("away", at: now)
            guard let next = machine.deadline else { return }
            #expect(next - now >= .milliseconds(25))
            #expect(next - now <= .seconds(2))
            now = next
            reports += machine.effects().count { $0 == .report(.disconnected("away")) }
        }
        #expect(reports == 1)
        #expect(now - start > .seconds(10))
    }

    @Test mutating func `an idle worker sends few commands`() {
        machine.waitForJobs()
        var now = start
        var counts = (beats: 0, inspections: 0, others: 0)
        while let deadline = machine.deadline, deadline <= start + .seconds(60) {
            now = max(now, deadline)
            machine.advance(to: now)
            for effect in machine.effects() {
                switch effect {
                case .call(.beat(let counter)):
                    counts.beats += 1
                    machine.reply([.integer(0), .integer(-1)], to: .beat(counter: counter), at: now)
                case .call(let call) where call == .inspect || call == .countHeld:
                    counts.inspections += 1
                    machine.reply(.integer(0), to: call, at: now)
                default: counts.others += 1
                }
            }
        }
        #expect(counts.beats == 20)
        #expect((40...67).contains(counts.inspections))
        #expect(counts.others == 0)
    }

    @Test func `a dead connection is noticed within three seconds`() {
        let settings = QueueSettings(list: "q", server: .unix(path: "/nowhere"))
        var machine = MachineFixture()
        machine.waitForJobs()
        let inspection = machine.deadline.map { $0 - start }
        #expect(inspection.map { $0 + settings.timeout } == .seconds(3))
    }
}
