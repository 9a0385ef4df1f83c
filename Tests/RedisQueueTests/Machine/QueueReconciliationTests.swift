import SystemTime
import Testing

@testable import RedisQueue

@Suite("The queue machine after a reconnect")
struct QueueReconciliationTests {
    var machine = MachineFixture()

    @Test mutating func `unanswered settlements are sent again with their numbers, and those that Redis has applied are not`() {
        machine.serve()
        machine.offer(2)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b"], asked: 2, drained: 0)
        machine.settle(id(1, 0), .ack)
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
        // No chunk 9 was ever reserved.
        machine.register(settled: "0", counter: 2, isExpected: true, chunks: ["1": "0:11", "9": "0:1", "rubbish": "0:1"])
        #expect(machine.effects().dropFirst() == [.call(.settle(batch)), .report(.connected(warnings: []))])
        #expect(machine.held == [id(1, 0), id(1, 1)])
        machine.lost("cut")
        machine.advance(to: start + .seconds(6))
        machine.effects()
        machine.register(settled: "1", counter: 3, isExpected: true, chunks: ["1": "0:01"])
        #expect(machine.effects().dropFirst() == [.report(.connected(warnings: []))])
        #expect(machine.held == [id(1, 1)])
    }

    @Test mutating func `jobs that only Redis knows are fetched, and jobs that only the worker knows are disowned`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "0", counter: 2, isExpected: true, chunks: ["1": "2:101"])
        #expect(machine.effects().dropFirst() == [.call(.fetch(chunk: 1, [0, 2]))])
        machine.reply([.string(bytes("a")), .string(bytes("c"))], to: .fetch(chunk: 1, [0, 2]))
        let jobs = [(0, "a"), (2, "c")].map { ClaimedJob(id: id(1, $0), bytes: bytes($1), wasClaimed: true) }
        #expect(machine.effects() == [.report(.claimed(jobs)), .report(.connected(warnings: []))])
        machine.lost("cut")
        machine.advance(to: start + .seconds(6))
        machine.effects()
        machine.register(settled: "0", counter: 3, isExpected: true, chunks: ["1": "2:100"])
        #expect(machine.effects().dropFirst() == [.report(.disowned([id(1, 2)])), .report(.connected(warnings: []))])
    }

    @Test mutating func `settlements that Redis has lost do not hide those of the next batch`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b", "c"], asked: 3, drained: 0)
        machine.settle(id(1, 0), .delay(job: bytes("a"), .after(.seconds(1)), isRetry: true))
        machine.advance()
        guard case .call(.settle(let first))? = machine.effects().last else {
            Issue.record("unexpected effects")
            return
        }
        machine.reply([.integer(1), .integer(0), .integer(-2)], to: .settle(first))
        machine.settle(id(1, 1), .ack)
        machine.advance()
        guard case .call(.settle(let second))? = machine.effects().last else {
            Issue.record("unexpected effects")
            return
        }
        #expect(String(decoding: second.chunks.bytes, as: UTF8.self).contains("0:001"))
        // Redis is restored to a state before the first batch, and so lost the delayed job too.
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "0", counter: 2, isExpected: true, chunks: ["1": "0:111"])
        let effects = machine.effects()
        guard case .call(.settle(let again)) = effects[1] else {
            Issue.record("unexpected effects")
            return
        }
        #expect(again.sequence == 2)
        #expect(String(decoding: again.chunks.bytes, as: UTF8.self).contains("0:101"))
        #expect(effects.contains(.call(.fetch(chunk: 1, [0]))))
    }

    @Test mutating func `a gap behind a confirmed settlement shows that Redis has lost it, and the worker registers again`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b", "c"], asked: 3, drained: 0)
        for place in 0..<3 {
            machine.settle(id(1, place), .ack, at: start - .seconds(1))
            machine.advance()
        }
        let batches = machine.effects().compactMap { effect -> SettleBatch? in
            if case .call(.settle(let batch)) = effect { batch } else { nil }
        }
        guard batches.map(\.sequence) == [1, 2, 3] else {
            Issue.record("unexpected batches")
            return
        }
        // The first met NOSCRIPT and is on its way again.
        machine.reply(.string(bytes("GAP")), to: .settle(batches[1]))
        #expect(machine.effects() == [.call(.settle(batches[1]))])
        machine.reply([.integer(1), .integer(0), .integer(-2)], to: .settle(batches[0]))
        // Redis is put back to a state before the first, and the connection stays.
        machine.reply(.string(bytes("GAP")), to: .settle(batches[2]))
        #expect(machine.effects() == [.call(.settle(batches[2]))])
        machine.reply(.string(bytes("GAP")), to: .settle(batches[1]))
        #expect(machine.phase == .disconnected)
        #expect(machine.effects().first == .hangUp)
    }

    @Test mutating func `a beat shows an idle worker that Redis has lost a confirmed settlement`() {
        machine.serve()
        machine.offer(1)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a"], asked: 1, drained: 1)
        machine.settle(id(1, 0), .ack)
        machine.advance(to: start + .milliseconds(10))
        machine.confirmSettlements()
        machine.advance(to: start + .seconds(4))
        let beat = Call.beat(counter: 2, settled: 1)
        #expect(machine.effects().contains(.call(beat)))
        machine.reply(.string(bytes("GAP")), to: beat, at: start + .seconds(4))
        #expect(machine.effects().contains(.hangUp))
    }

    @Test mutating func `held jobs are put back into an emptied Redis, and a settled one is not`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b", "c"], asked: 3, drained: 0)
        machine.settle(id(1, 1), .ack)
        machine.advance()
        machine.confirmSettlements()
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "-1", counter: 2, isExpected: true, epoch: "another")
        let adopted = Call.Adopted(chunk: 1, entry: bytes("0:101"), jobs: [bytes("a"), [], bytes("c")])
        #expect(machine.effects().contains(.call(.adopt(adopted))))
        #expect(machine.held == [id(1, 0), id(1, 2)])
    }

    @Test mutating func `a Redis that was put back to before the registration of this worker is recognized`() {
        machine.serve()
        machine.offer(1)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a"], asked: 1, drained: 0)
        machine.settle(id(1, 0), .ack)
        machine.advance(to: start + .seconds(1))
        machine.confirmSettlements()
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "-1", counter: 2, isExpected: true)
        let warnings = machine.effects().compactMap { if case .report(.connected(let warnings)) = $0 { warnings } else { nil } }
        #expect(warnings == [["Redis was put back to an earlier state: the jobs that it has again are pushed again"]])
    }

    @Test mutating func `jobs are put back until Redis has confirmed them, and only then is a settlement sent`() {
        machine.serve()
        machine.offer(2)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b"], asked: 2, drained: 0)
        machine.settle(id(1, 0), .delay(job: bytes("a"), .after(.seconds(1)), isRetry: true))
        machine.advance()
        let adopt = Call.adopt(.init(chunk: 1, entry: bytes("0:11"), jobs: [bytes("a"), bytes("b")]))
        for counter: Int64 in 2...3 {
            machine.lost("cut")
            machine.advance(to: start + .seconds(3 * (counter - 1)))
            machine.effects()
            machine.register(counter: counter, isExpected: true, epoch: "another")
            #expect(machine.effects().last == .call(adopt))
            #expect(machine.phase == .reconciling)
        }
        machine.reply(.integer(2), to: adopt)
        #expect(machine.phase == .serving)
        #expect(machine.held == [id(1, 0), id(1, 1)])
        machine.advance(to: start + .seconds(6))
        guard case .call(.settle(let batch))? = machine.effects().last else {
            Issue.record("the retry is not sent again")
            return
        }
        #expect(batch.ids == [id(1, 0)])
    }
}
