import Platform
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
            [
                .integer(0), .string(bytes("-1")), .string(bytes("epoch")), .integer(0), .integer(-1), .integer(0), .integer(0),
                .array([]), .string(bytes("-")), .integer(0),
            ], to: .register(.init(counter: 1, confirmed: 0, isExpected: false)))
        #expect(machine.effects() == [.call(.info)])
        machine.reply(.error(ErrorReply("NOPERM no")), to: .info)
        #expect(machine.effects() == [.report(.connected(warnings: []))])
        #expect(machine.phase == .serving)
    }

    @Test(arguments: [
        RedisReply.array([.string(bytes("one")), .string(bytes("17 com.one")), .string(bytes("two")), .string(bytes("9 "))]),
        .error(ErrorReply("NOPERM no")),
    ])
    mutating func `it learns which apps daemons have had before it serves, once`(reply: RedisReply) {
        machine = MachineFixture(readsApps: true)
        machine.advance()
        machine.register()
        #expect(machine.effects().suffix(2) == [.call(.info), .call(.apps)])
        machine.reply(.string(bytes("aof_enabled:1\r\n")), to: .info)
        #expect(machine.effects().isEmpty && machine.phase == .reconciling)
        machine.reply(reply, to: .apps)
        var expected: [QueueMachine.Effect] = [.report(.connected(warnings: []))]
        if case .array = reply { expected.insert(.report(.apps(["one": "com.one", "two": ""])), at: 0) }
        #expect(machine.effects() == expected)
        machine.lost("cut")
        machine.advance(to: start + .seconds(1))
        machine.register(counter: 2, isExpected: true)
        #expect(!machine.effects().contains(.call(.apps)))
    }

    @Test mutating func `nothing is claimed until the parts of a split job are in the list`() {
        machine.serve()
        machine.offer(1000)
        machine.advance()
        #expect(machine.effects() == [.call(.claim(MachineFixture.claim(1, 250)))])
        machine.claim(["many", "one"], asked: 250, drained: 0)
        machine.settle(id(1, 0), .split(into: JobParts(prefix: [], ranges: [0..<1, 1..<2], suffix: [])))
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
        #expect(machine.effects() == [.call(.claim(MachineFixture.claim(3, 250)))])
    }

    @Test mutating func `the number of records is reported at each multiple of the step of its list`() {
        machine.advance()
        machine.register(deadLetters: 9999, feedback: 123_456)
        machine.reply(.string(bytes("aof_enabled:1\r\n")), to: .info)
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
        machine.settle(id(1, 0), .replace(with: bytes("m"), toTail: true))
        machine.effects()
        machine.offer(1000)
        machine.advance(to: start + .milliseconds(10))
        #expect(machine.effects().contains(.call(.claim(MachineFixture.claim(3, 250)))))
    }

    @Test mutating func `few places wait two milliseconds, many are claimed at once`() {
        machine.serve()
        machine.offer(3)
        machine.advance()
        #expect(machine.effects().isEmpty)
        #expect(machine.deadline == start + .milliseconds(2))
        machine.advance(to: start + .milliseconds(2))
        #expect(machine.effects() == [.call(.claim(MachineFixture.claim(1, 3)))])
        machine.claim([], asked: 3, drained: 0)
        machine.offer(5000)
        machine.advance()
        #expect(machine.effects() == [.call(.claim(MachineFixture.claim(3, 250)))])
    }

    @Test mutating func `it waits with the second connection only after the list was seen empty`() {
        machine.serve()
        machine.offer(100)
        machine.advance()
        #expect(machine.effects() == [.call(.claim(MachineFixture.claim(1, 100)))])
        machine.claim(["a"], asked: 100, drained: 1)
        machine.advance()
        let behind = MachineFixture.claim(3, 32, after: 0)
        #expect(machine.effects() == [.report(.claimed([ClaimedJob(id: id(1, 0), bytes: bytes("a"))])), .wait(behind)])
        machine.advance(to: start + .milliseconds(400))
        #expect(machine.effects().isEmpty)
        machine.wake("b")
        // The reply of the piggybacked claim comes next: another claim now would want the same places.
        machine.advance()
        #expect(machine.effects().isEmpty)
        machine.piggybackedClaim(["b"], chunk: 3, drained: 0)
        machine.advance()
        let more = Call.claim(MachineFixture.claim(5, 98))
        #expect(machine.effects() == [.report(.claimed([ClaimedJob(id: id(3, 0), bytes: bytes("b"))])), .call(more)])
    }

    @Test mutating func `after 0.9 s of silence it looks for jobs that the second connection has not reported`() {
        machine.waitForJobs()
        for second in 1...2 {
            let later = start + .milliseconds(900 * second)
            #expect(machine.deadline == later)
            machine.advance(to: later)
            #expect(machine.effects() == [.call(.inspect(chunk: 3))])
            machine.reply(.integer(0), to: .inspect(chunk: 3), at: later)
            machine.advance(to: later)
            #expect(machine.effects().isEmpty)
        }
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

    @Test mutating func `a job that is too large is fetched from the next chunk, and only its beginning`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.effects()
        let claim = MachineFixture.claim(1, 3)
        machine.reply([.integer(1), .integer(1), .integer(0), .integer(1), .integer(0)], to: .claim(claim))
        #expect(machine.effects() == [.call(.fetch(.init(chunk: 2, places: [0])))])
        machine.reply([], to: .jobs(of: claim))
        machine.reply([.array([.integer(99), .string(bytes("{"))])], to: .fetch(.init(chunk: 2, places: [0])))
        #expect(machine.effects() == [.report(.claimed([ClaimedJob(id: id(2, 0), bytes: bytes("{"), fullSize: 99)]))])
    }

    @Test mutating func `recovered jobs that may not be claimed yet are not asked for until a job is settled`() {
        machine.serve()
        machine.offer(100)
        machine.advance()
        machine.claim(["a"], asked: 100, drained: 1, recovered: 1, level: 2)
        machine.advance()
        machine.effects()
        machine.claim([], chunk: 3, asked: 99, drained: 1, recovered: 1)
        machine.advance()
        #expect(!machine.effects().contains { if case .call(.claim) = $0 { true } else { false } })
        machine.settle(id(1, 0), .ack)
        machine.offer(100)
        machine.advance()
        #expect(machine.effects().contains { if case .call(.claim) = $0 { true } else { false } })
    }

    @Test mutating func `a list whose second dial is under way holds no places of the lists behind it`() {
        machine.advance()
        #expect(machine.phase == .dialing && machine.wantsPlaces)
        machine.lost("cut")
        machine.advance(to: start + .seconds(1))
        #expect(machine.phase == .dialing && machine.wantsPlaces)
        machine.lost("cut")
        machine.advance(to: start + .seconds(2))
        #expect(machine.phase == .dialing && !machine.wantsPlaces)
    }

    @Test mutating func `a list that Redis refuses holds no places of the lists behind it`() {
        for seconds in 0..<2 {
            machine.advance(to: start + .seconds(5 * seconds))
            #expect(machine.phase == .dialing && machine.wantsPlaces)
            machine.refused(at: start + .seconds(5 * seconds))
        }
        machine.advance(to: start + .seconds(10))
        #expect(machine.phase == .dialing && !machine.wantsPlaces)
    }

    @Test mutating func `during a stop no turn is due for a delayed job`() {
        machine.serve()
        machine.offer(2)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b"], asked: 2, drained: 0)
        machine.settle(id(1, 0), .delay(job: bytes("a"), .after(.zero), isRetry: true))
        machine.advance(to: start + .milliseconds(2))
        guard case .call(.settle(let batch))? = machine.effects().last else {
            Issue.record("unexpected effects")
            return
        }
        machine.reply([.integer(1), .integer(0), .integer(0), .integer(0), .integer(0), .integer(0)], to: .settle(batch))
        machine.stop()
        machine.advance(to: start + .milliseconds(2))
        #expect(machine.phase == .serving)
        #expect(machine.deadline.map { $0 > start + .milliseconds(2) } == true)
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
        machine.settle(id(1, 0), .ack, at: start + .milliseconds(400))
        machine.advance(to: start + .milliseconds(400))
        guard case .call(.settle(let batch))? = machine.effects().last else {
            Issue.record("no settlement")
            return
        }
        machine.reply([.integer(1), .integer(0), .integer(-2)], to: .settle(batch), at: start + .milliseconds(401))
        machine.advance(to: start + .milliseconds(401))
        #expect(machine.effects().contains(.call(.claim(MachineFixture.claim(3, 99)))))
    }

    @Test mutating func `without a confirmed beat for 60 percent of the lease the lease is in doubt`() {
        machine.serve()
        machine.advance(to: start + .seconds(3))
        #expect(machine.effects() == [.call(.beat(.init(counter: 2, settled: 0)))])
        machine.advance(to: start + .milliseconds(8999))
        #expect(machine.effects() == [.call(.beat(.init(counter: 3, settled: 0)))])
        machine.offer(100, at: start + .milliseconds(8999))
        machine.advance(to: start + .seconds(9))
        #expect(machine.effects().contains(.report(.leaseInDoubt)))
        machine.reply([.integer(0), .integer(-1)], to: .beat(.init(counter: 2, settled: 0)), at: start + .seconds(10))
        #expect(machine.effects() == [.report(.connected(warnings: []))])
    }

    @Test mutating func `held jobs may be sent until 60 percent of the lease have passed without a confirmed beat`() {
        #expect(machine.sendingDeadline == nil)
        machine.serve()
        #expect(machine.sendingDeadline == start + .seconds(9))
        machine.advance(to: start + .seconds(3))
        #expect(machine.sendingDeadline == start + .seconds(9))
        machine.reply([.integer(0), .integer(-1)], to: .beat(.init(counter: 2, settled: 0)), at: start + .seconds(3))
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

    @Test mutating func `a stop that finds a late registration of this worker connects again and removes it`() {
        machine.waitForJobs()
        machine.stop()
        machine.advance()
        #expect(machine.effects() == [.call(.unregister)])
        machine.reply(.string(bytes("STALE")), to: .unregister)
        machine.advance(to: start + .seconds(3))
        #expect(machine.effects().last == .dial)
        machine.register(settled: "0", counter: 2, isExpected: true)
        machine.effects()
        machine.advance(to: start + .seconds(3))
        #expect(machine.effects().last == .call(.unregister))
        machine.reply(.integer(0), to: .unregister)
        #expect(machine.effects() == [.hangUp, .report(.stopped)])
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
                case .call(.beat(let beat)):
                    counts.beats += 1
                    machine.reply([.integer(0), .integer(-1)], to: .beat(.init(counter: beat.counter, settled: 0)), at: now)
                case .call(let call) where call == .inspect(chunk: 3):
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
