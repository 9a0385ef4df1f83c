import Platform
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
        machine.register(settled: "0", counter: 2, isExpected: true, chunks: ["1": "0:11", "rubbish": "0:1"])
        #expect(machine.effects().dropFirst() == [.call(.settle(batch)), .report(.connected(warnings: []))])
        #expect(machine.held == [id(1, 0), id(1, 1)])
        machine.lost("cut again")
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
        #expect(machine.effects().dropFirst() == [.call(.fetch(.init(chunk: 1, places: [0, 2])))])
        machine.reply([.string(bytes("a")), .string(bytes("c"))], to: .fetch(.init(chunk: 1, places: [0, 2])))
        let jobs = [(0, "a"), (2, "c")].map { ClaimedJob(id: id(1, $0), bytes: bytes($1), wasClaimed: true) }
        #expect(machine.effects() == [.report(.claimed(jobs)), .report(.connected(warnings: []))])
        machine.lost("cut again")
        machine.advance(to: start + .seconds(6))
        machine.effects()
        machine.register(settled: "0", counter: 3, isExpected: true, taken: "1")
        let gone = QueueEvent.disowned([id(1, 0), id(1, 2)], .takenOver)
        #expect(machine.effects().dropFirst() == [.report(gone), .report(.connected(warnings: []))])
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
        #expect(effects.contains(.call(.fetch(.init(chunk: 1, places: [0])))))
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
        let beat = Call.beat(.init(counter: 2, settled: 1))  // No chunk is left.
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
        let adopted = Adoption(
            chunk: 1, level: 0, positions: 3, jobs: [.init(place: 0, bytes: bytes("a")), .init(place: 2, bytes: bytes("c"))])
        #expect(machine.effects().contains(.call(.adopt(adopted))))
        #expect(machine.held == [id(1, 0), id(1, 2)])
    }

    /// Redis returned to a state before its first worker, and has one job again, perhaps that of a campaign.
    @Test(arguments: [(true, 5), (false, 1)])
    func `a job that Redis has again may have been many pushes`(isCampaign: Bool, repeated: Int) {
        var holdings = Holdings(keepsJobs: true)
        let tokens = (0..<5).compactMap { Lua.Job(.string(bytes("token \($0)"))) }
        let source: Claim.Source = isCampaign ? .campaign("c", created: "1") : .list
        for job in holdings.hold(tokens, chunk: 1, from: source) { holdings.acknowledge(job.id, now: start) }
        holdings.seal(includingHeads: true, includingAsideHeads: true)
        holdings.confirm(1)
        let items: [RedisReply] = [
            .integer(0), .string(bytes("-1")), .string(bytes("another")), .integer(0), .integer(-1), .integer(0), .integer(0),
            .array([]), .string(bytes("-")), .integer(1),
        ]
        guard case .registered(let reply)? = Registration.Reply(items) else {
            Issue.record("not the reply to a registration")
            return
        }
        _ = holdings.compare(reply, .emptied, nextChunk: 2, now: start)
        holdings.seal(includingHeads: true, includingAsideHeads: true)
        #expect(holdings.nextUnsent()?.maybeDuplicates == repeated)
    }

    @Test func `jobs that an emptied Redis has not again count when it returns to an earlier state`() {
        var holdings = Holdings(keepsJobs: true)
        for number in 1...10 as ClosedRange<UInt64> {
            holdings.acknowledge(ClaimID(number), now: start)
            holdings.seal(includingHeads: true, includingAsideHeads: true)
            holdings.confirm(number)
        }
        #expect(holdings.forgotten(after: 8) == 2)
        #expect(holdings.forgotten(after: 0, atMost: 3) == 3)
        #expect(holdings.forgotten(after: 0, atMost: 0) == 0)
        #expect(holdings.forgotten(after: 4) == 5)
        #expect(holdings.forgotten(after: 0) == 0)
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
        let jobs = [Adoption.Job(place: 0, bytes: bytes("a")), Adoption.Job(place: 1, bytes: bytes("b"))]
        let adopt = Call.adopt(.init(chunk: 1, level: 0, positions: 2, jobs: jobs))
        for counter: Int64 in 2...3 {
            machine.lost("cut")
            machine.advance(to: start + .seconds(3 * (counter - 1)))
            machine.effects()
            machine.register(counter: counter, isExpected: true, epoch: "another")
            #expect(machine.effects().last == .call(adopt))
            #expect(machine.phase == .reconciling)
        }
        machine.reply([.integer(2), .integer(0)], to: adopt)
        #expect(machine.phase == .serving)
        #expect(machine.held == [id(1, 0), id(1, 1)])
        machine.advance(to: start + .seconds(6))
        guard case .call(.settle(let batch))? = machine.effects().last else {
            Issue.record("the retry is not sent again")
            return
        }
        #expect(batch.ids == [id(1, 0)])
    }

    // MARK: A Redis that lacks claims

    /// Serves with two jobs in chunk 1 and one in chunk 3, and loses the connection.
    private mutating func loseWithJobs() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b"], asked: 3, drained: 0)
        machine.advance(to: start + .milliseconds(4))
        machine.claim(["c"], chunk: 3, asked: 1, drained: 0)
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.effects()
    }

    private static func adopt(_ chunk: UInt64, _ jobs: [String], positions: Int? = nil, from place: Int = 0) -> Call {
        let jobs = jobs.enumerated().map { Adoption.Job(place: place + $0.offset, bytes: bytes($0.element)) }
        return .adopt(.init(chunk: chunk, level: 0, positions: positions ?? jobs.count, jobs: jobs))
    }

    @Test mutating func `held jobs whose claim Redis has lost are put back, and the warning names their number`() {
        loseWithJobs()
        machine.register(settled: "0", counter: 2, isExpected: true)
        let adoptions = [Self.adopt(1, ["a", "b"]), Self.adopt(3, ["c"])]
        #expect(Array(machine.effects().dropFirst()) == adoptions.map { QueueMachine.Effect.call($0) })
        #expect(machine.phase == .reconciling)
        machine.reply([.integer(2), .integer(2)], to: adoptions[0])
        machine.reply([.integer(1), .integer(0)], to: adoptions[1])
        let warning = "Redis was put back to an earlier state: 3 jobs that this worker holds were put back"
        #expect(machine.effects() == [.report(.connected(warnings: [warning]))])
        #expect(machine.held == [id(1, 0), id(1, 1), id(3, 0)])
        // The next connection finds them.
        machine.lost("cut again")
        machine.advance(to: start + .seconds(6))
        machine.effects()
        machine.register(settled: "0", counter: 3, isExpected: true, chunks: ["1": "0:11", "3": "0:1"])
        #expect(machine.effects().dropFirst() == [.report(.connected(warnings: []))])
    }

    @Test mutating func `of a worker that was taken over, chunks that were not taken are put back`() {
        loseWithJobs()
        machine.register(settled: "0", counter: 2, isExpected: true, taken: "1")
        let gone = QueueEvent.disowned([id(1, 0), id(1, 1)], .takenOver)
        #expect(machine.effects().dropFirst() == [.report(gone), .call(Self.adopt(3, ["c"]))])
        #expect(machine.held == [id(3, 0)])
    }

    @Test mutating func `a takeover by a worker of 0_2, which records no chunks, disowns all jobs`() {
        loseWithJobs()
        machine.register(settled: "0", counter: 2, isExpected: true, taken: "*")
        let gone = QueueEvent.disowned([id(1, 0), id(1, 1), id(3, 0)], .takenOver)
        #expect(machine.effects().dropFirst() == [.report(gone), .report(.connected(warnings: []))])
    }

    @Test mutating func `jobs that are being settled are put back before, and not if another worker has them`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a", "b", "c"], asked: 3, drained: 0)
        machine.settle(id(1, 1), .delay(job: bytes("b"), .after(.seconds(1)), isRetry: true))
        machine.advance()
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "0", counter: 2, isExpected: true)
        #expect(machine.effects().dropFirst() == [.call(Self.adopt(1, ["a", "b", "c"]))])
        machine.lost("cut")
        machine.advance(to: start + .seconds(6))
        machine.effects()
        machine.register(settled: "0", counter: 3, isExpected: true, taken: "1")
        let effects = machine.effects()
        #expect(effects.dropFirst().first == .report(.disowned([id(1, 0), id(1, 2)], .takenOver)))
        #expect(!effects.contains { if case .call(.adopt) = $0 { true } else { false } })
        machine.lost("cut")
        machine.advance(to: start + .seconds(9))
        machine.effects()
        machine.register(settled: "0", counter: 4, isExpected: true)
        #expect(!machine.effects().contains { if case .call(.adopt) = $0 { true } else { false } })
    }

    @Test mutating func `a chunk that this process has never claimed is fetched, counted, and raises the numbers`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "0", counter: 2, isExpected: true, chunks: ["9": "0:1", "9007199254740992": "0:1"])
        #expect(machine.effects().dropFirst() == [.call(.fetch(.init(chunk: 9, places: [0])))])
        machine.reply([.string(bytes("a"))], to: .fetch(.init(chunk: 9, places: [0])))
        machine.offer(3)
        machine.advance(to: start + .seconds(4))
        let calls = machine.effects().compactMap { if case .call(let call) = $0 { call } else { nil } }
        #expect(calls.contains { if case .claim(let claim) = $0 { claim.chunk == 10 } else { false } })
        #expect(calls.contains { if case .settle(let batch) = $0 { batch.maybeDuplicates == 1 } else { false } })
    }

    @Test mutating func `a beat names the newest chunk`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.claim(["a"], asked: 3, drained: 1)
        machine.advance(to: start + .seconds(4))
        let beat = Call.beat(.init(counter: 2, settled: 0, chunk: 1))
        #expect(machine.effects().contains(.call(beat)))
        machine.reply(.string(bytes("GAP")), to: beat, at: start + .seconds(4))
        #expect(machine.phase == .disconnected)
    }

    @Test mutating func `a job of which only the beginning is in memory is dropped if Redis does not have it`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        let claim = MachineFixture.claim(1, 3)
        machine.reply([.integer(0), .integer(1), .integer(0), .integer(1), .integer(0)], to: .claim(claim))
        let size: Int64 = 30 << 20
        machine.reply([.array([.integer(size), .string(bytes("head"))])], to: .fetch(.init(chunk: 2, places: [0])))
        machine.lost("cut")
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "0", counter: 2, isExpected: true)
        let job = Adoption.Job(place: 0, bytes: bytes("head"), fullSize: Int(size))
        let adopt = Call.adopt(.init(chunk: 2, level: 0, positions: 1, jobs: [job]))
        #expect(machine.effects().dropFirst() == [.call(adopt)])
        machine.reply([.integer(0), .integer(0), .integer(0)], to: adopt)
        #expect(machine.effects().first == .report(.disowned([id(2, 0)], .tooLarge)))
        #expect(machine.held.isEmpty)
        #expect(machine.phase == .serving)
    }

    // MARK: A record of another process

    @Test mutating func `a record of another process is left with its jobs, and the worker registers under a new name`() {
        loseWithJobs()
        machine.settle(id(1, 0), .ack)
        machine.connected()
        machine.effects()
        let registration = Call.register(.init(counter: 2, confirmed: 0, isExpected: true))
        machine.reply(MachineFixture.foreign("7"), to: registration)
        #expect(machine.effects() == [.report(.disowned([id(1, 1), id(3, 0)], .otherProcess)), .rename])
        #expect(machine.held.isEmpty)
        machine.rename(to: "new")
        let new = Call.register(.init(counter: 3, confirmed: 0, isExpected: false, sealed: 0, answered: 1))
        #expect(machine.effects() == [.report(.renamed(worker: "new", number: "7")), .call(new)])
        #expect(machine.phase == .registering)
    }

    @Test mutating func `jobs that the record of another process lacks after Redis was emptied are put back under the new name`()
    {
        loseWithJobs()
        machine.connected()
        machine.effects()
        let registration = Call.register(.init(counter: 2, confirmed: 0, isExpected: true))
        machine.reply(MachineFixture.foreign("7", epoch: "another", chunks: ["1": "0:10"]), to: registration)
        #expect(machine.effects() == [.report(.disowned([id(1, 0)], .otherProcess)), .rename])
        #expect(machine.held == [id(1, 1), id(3, 0)])
        machine.rename(to: "new")
        machine.effects()
        machine.register(settled: "-1", counter: 3, isExpected: false, epoch: "another")
        let adopted = machine.effects().compactMap { effect in
            if case .call(.adopt(let adopted)) = effect { adopted.jobs.map(\.place) } else { nil }
        }
        #expect(adopted == [[1], [0]])
        #expect(machine.held == [id(1, 1), id(3, 0)])
    }

    @Test mutating func `a settled job of another process is counted, also if this worker keeps others of its chunk`() {
        loseWithJobs()
        machine.settle(id(1, 0), .ack)
        machine.settle(id(1, 1), .ack)
        machine.connected()
        machine.effects()
        let registration = Call.register(.init(counter: 2, confirmed: 0, isExpected: true))
        machine.reply(MachineFixture.foreign("7", epoch: "another", chunks: ["1": "0:10"]), to: registration)
        machine.rename(to: "new")
        machine.effects()
        machine.register(settled: "-1", counter: 3, isExpected: false, epoch: "another")
        for case .call(.adopt(let adopted)) in machine.effects() {
            machine.reply([.integer(1), .integer(0)], to: .adopt(adopted))
        }
        machine.advance(to: start + .seconds(4))
        let batches: [SettleBatch] = machine.effects().compactMap { effect in
            if case .call(.settle(let batch)) = effect { batch } else { nil }
        }
        // Two jobs were put back, and the other process pushes the third one again.
        #expect(batches.map(\.maybeDuplicates).reduce(0, +) == 3)
        #expect(batches.map(\.responded).reduce(0, +) == 1)
    }

    @Test mutating func `a claim whose number is in use leads to a registration, and claims continue above`() {
        machine.serve()
        machine.offer(3)
        machine.advance(to: start + .milliseconds(2))
        machine.reply(.string(bytes("TAKEN")), to: .claim(MachineFixture.claim(1, 3)))
        #expect(machine.phase == .disconnected)
        machine.advance(to: start + .seconds(3))
        machine.effects()
        machine.register(settled: "0", counter: 2, isExpected: true, chunks: ["1": "0:1"])
        machine.reply([.string(bytes("x"))], to: .fetch(.init(chunk: 1, places: [0])))
        machine.offer(3)
        machine.advance(to: start + .seconds(4))
        #expect(machine.effects().contains { if case .call(.claim(let claim)) = $0 { claim.chunk == 3 } else { false } })
    }

    @Test mutating func `a worker that Redis does not know claims no reason`() {
        machine.serve()
        machine.reply(.string(bytes("FENCED")), to: .beat(.init(counter: 2, settled: 0)))
        let reason = "this worker is not registered any more; it registers again"
        #expect(machine.effects() == [.report(.registrationLost), .hangUp, .report(.disconnected(reason))])
    }

    // MARK: Claims that fail

    @Test mutating func `an error of each claim is reported once, and the pauses grow to five seconds`() {
        let error = ErrorReply("ERR proxy: unknown command")
        machine.serve()
        var now = start
        var pauses: [Duration] = []
        var events: [QueueEvent] = []
        for counter in 2..<20 {
            machine.offer(3, at: now)
            machine.advance(to: now + .milliseconds(2))
            let claims = machine.effects().compactMap { if case .call(.claim(let claim)) = $0 { claim } else { nil } }
            machine.reply(.error(error), to: .claim(claims.first ?? MachineFixture.claim(1, 3)), at: now)
            pauses.append((machine.deadline ?? now) - now)
            now = machine.deadline ?? now
            machine.advance(to: now)
            machine.register(settled: "0", counter: Int64(counter), isExpected: true)
            // The fixture dates each reply to the start.
            events += machine.effects().compactMap { if case .report(let event) = $0 { event } else { nil } }
                .filter { $0 != .leaseInDoubt }
        }
        #expect(events.prefix(4) == [.disconnected("\(error)"), .resumed, .interrupted, .resumed])
        #expect(events.dropFirst().allSatisfy { $0 == .resumed || $0 == .interrupted })
        #expect(pauses.suffix(5).allSatisfy { $0 >= .milliseconds(2500) && $0 <= .seconds(5) })
        // A claim works.
        machine.offer(3, at: now)
        machine.advance(to: now + .milliseconds(2))
        let claims = machine.effects().compactMap { if case .call(.claim(let claim)) = $0 { claim } else { nil } }
        machine.reply(MachineFixture.claimReply(0, drained: 1), to: .claim(claims.first ?? MachineFixture.claim(1, 3)), at: now)
        #expect(machine.effects() == [.report(.connected(warnings: []))])
        machine.lost("cut", at: now)
        #expect((machine.deadline ?? now) - now <= .milliseconds(50))
    }
}
