import Clocks

extension QueueMachine {
    /// An answer to a call. `sentAt` is when the call went out: what Redis says was true no earlier.
    mutating func answered(
        _ call: Call, _ reply: RedisReply, sentAt: Instant, now: Instant,
        isGone: (String) -> Bool
    ) {
        // The second connection's word says nothing of the first.
        if !call.isOnSecond { nextLook = now + QueueMachine.lookInterval }
        // A job that it may have brought is counted by the goodbye that is out, and then fetched and given back.
        if case .ride = call, phase == .leaving { return rideArrived() }
        if case .error(let text) = reply { return failed(call, ErrorReply.withoutArguments(text), now: now) }
        switch call.isFenced ? reply.text : nil {
        case "FENCED": return fenced(now: now)
        case "STALE": return lost("another connection took over this worker's number", now: now)
        case "GAP":
            // Its predecessor met NOSCRIPT and has been sent again in the meantime.
            return effects.append(.call(call))
        default: break
        }
        let items = reply.items ?? []
        let isUnderstood =
            switch call {
            case .register: registered(items, sentAt: sentAt, now: now, isGone: isGone)
            case .claim(let first, let count, _):
                claimed(items, first: first, asked: count, now: now) { $0.claimOut = 0 }
            case .ride(let first, let count, _, _):
                claimed(items, first: first, asked: count, now: now) { $0.rideArrived() }
            case .pop(let count): popped(reply, asked: count, now: now)
            case .settle(let batch): settled(batch, items, now: now)
            case .beat: beaten(items, sentAt: sentAt, now: now, isGone: isGone)
            case .promote: promoted(items, now: now)
            case .reap(let dead, let first): reaped(dead, items, first: first, now: now)
            case .fields: compared(items, now: now)
            case .fetch(let fields): fetched(items, fields: fields, now: now)
            case .info: informed(reply, now: now)
            case .unregister: struckOff(reply)
            case .nodes: told(items, now: now)
            case .wait: waited(reply, now: now)
            case .look: looked(reply)
            case .countHeld: counted(reply, now: now)
            case .adopt, .merge, .greeting: true
            }
        if !isUnderstood { lost("an answer that makes no sense", now: now) }
    }

    private mutating func failed(_ call: Call, _ text: String, now: Instant) {
        switch call {
        case _ where ErrorReply(text) == .moved: moved(text, now: now)
        case .wait where !text.hasPrefix("NOAUTH"):
            isWaitOut = false
            waiting.refused(text, now: now)
            if let lack = Waiting.lack(text) { miss(lack) }
        case .info, .nodes:
            // A user without the right to ask gets no warnings, and loses nothing.
            answersMissing -= 1
            finishReconciling(now: now)
        case .pop where !popsOne && text.hasPrefix("ERR wrong number of arguments"):
            popsOne = true  // LPOP learned to count in Redis 6.2.
            claimOut = 0
            offeredAt = now
            miss("LPOP takes one job at a time (from Redis 6.2 on it takes many)")
        default:
            switch ErrorReply(text) {
            case .refusal: refused(text, now: now)
            case .scriptMissing, .moved, .passing: lost(text, now: now)
            }
        }
    }

    /// Something goes another way here, and slower: worth one line, not one at every reconnect.
    private mutating func miss(_ lack: String) {
        if !lacks.insert(lack).inserted { return }
        effects.append(.report(.limited(lack)))
    }

    // MARK: Jobs

    private mutating func claimed(
        _ items: [RedisReply], first: ClaimID, asked: Int, now: Instant, arrived: (inout Self) -> Void
    ) -> Bool {
        guard items.count >= 5, let drained = items[0].integer, let once = items[1].integer, let twice = items[2].integer,
            let thrice = items[3].integer, let recovered = items[4].integer.flatMap(Recovered.init)
        else { return false }
        self.recovered = recovered
        let count = items.count - 5
        var jobs: [ClaimedJob] = []
        jobs.reserveCapacity(count)
        for index in 0..<count {
            guard let bytes = items[index + 5].bytes else { return false }
            let level: UInt8 =
                index < once ? 1 : index < once + twice ? 2 : index < once + twice + thrice ? 3 : 0
            let id = first.advanced(by: index)
            held.insert(id, bytes: bytes, level: level)
            jobs.append(ClaimedJob(id: id, bytes: bytes))
        }
        // What was not needed of the ids is free again, unless ids behind them are taken.
        if nextID == first.advanced(by: asked) { nextID = first.advanced(by: count) }
        arrived(&self)
        received(jobs, drained: drained == 1, now: now)
        return true
    }

    private mutating func popped(_ reply: RedisReply, asked: Int, now: Instant) -> Bool {
        let jobs: [[UInt8]]
        switch reply {
        case .null: jobs = []
        case .string(let job): jobs = [job]
        case .array(let items): jobs = items.compactMap(\.bytes)
        default: return false
        }
        claimOut = 0
        receivedUnguarded(jobs, drained: jobs.count < asked, now: now)
        return true
    }

    private mutating func receivedUnguarded(_ bytes: [[UInt8]], drained: Bool, now: Instant) {
        let jobs = bytes.enumerated().map { ClaimedJob(id: nextID.advanced(by: $0.offset), bytes: $0.element) }
        nextID = nextID.advanced(by: jobs.count)
        for job in jobs { held.insert(job.id, bytes: job.bytes) }
        received(jobs, drained: drained, now: now)
    }

    private mutating func received(_ jobs: [ClaimedJob], drained: Bool, now: Instant) {
        isClaimFresh = !jobs.isEmpty
        waiting.claimed(drained: drained, count: jobs.count, now: now)
        hand(jobs)
        if places > 0 { offeredAt = now }
    }

    mutating func hand(_ jobs: [ClaimedJob]) {
        places = max(0, places - jobs.count)
        // When we are leaving they go straight back.
        if !jobs.isEmpty && !isStopping { effects.append(.report(.claimed(jobs))) }
    }

    private mutating func settled(_ batch: SettleBatch, _ items: [RedisReply], now: Instant) -> Bool {
        guard items.count >= 3, let trimmed = items[1].integer, let due = items[2].integer else { return false }
        for id in settlements.confirm(batch.sequence) { held.remove(id) }
        if trimmed > 0 { effects.append(.report(.deadLettersTrimmed(Int(trimmed)))) }
        if items.count > 3, let letters = items[3].integer { noticed(deadLetters: Int(letters)) }
        learned(due: due, now: now)
        return true
    }

    /// They are kept without end where no maximum is set: said at 10,000 and at every 10,000 more, not each time.
    mutating func noticed(deadLetters count: Int) {
        guard count > 0 else { return }
        let step = QueueMachine.manyDeadLetters
        if count >= deadLettersToSay { effects.append(.report(.deadLettersMany(count))) }
        deadLettersToSay = (count / step + 1) * step
    }

    private mutating func promoted(_ items: [RedisReply], now: Instant) -> Bool {
        guard items.count == 2, let count = items[0].integer, let due = items[1].integer else { return false }
        promoted(count, due: due, now: now)
        return true
    }

    private mutating func waited(_ reply: RedisReply, now: Instant) -> Bool {
        isWaitOut = false
        waiting.woke(somethingCame: reply != .null)
        if reply != .null { claimsAtOnce = true }
        if mode == .atMostOnce, let job = reply.items?.last?.bytes { receivedUnguarded([job], drained: false, now: now) }
        if places > 0 && offeredAt == nil { offeredAt = now }
        return true
    }

    /// Jobs in the list while the second connection still waits for some: its answer is on the way, or the connection is dead.
    private mutating func looked(_ reply: RedisReply) -> Bool {
        guard let length = reply.integer else { return false }
        isLookOut = false
        if length > 0 { waiting.sawJobs() }
        return true
    }

    // MARK: Workers

    private mutating func beaten(
        _ items: [RedisReply], sentAt: Instant, now: Instant, isGone: (String) -> Bool
    ) -> Bool {
        guard items.count >= 2, let recovered = items[0].integer.flatMap(Recovered.init), let due = items[1].integer else {
            return false
        }
        isBeatOut = false
        lease.beatConfirmed(sentAt: sentAt)
        if isDoubted, let doubtAt = lease.doubtAt, now < doubtAt { startServing(now: now) }
        hear(recovered, now: now)
        learned(due: due, now: now)
        look(at: items.dropFirst(2), now: now, isGone: isGone)
        return true
    }

    mutating func hear(_ recovered: Recovered, now: Instant) {
        self.recovered = recovered
        if recovered != .none && places > 0 && offeredAt == nil { offeredAt = now }
    }

    mutating func look(at items: ArraySlice<RedisReply>, now: Instant, isGone: (String) -> Bool) {
        var counters: [(worker: String, counter: Int64)] = []
        var rest = items
        while let worker = rest.popFirst()?.text, let score = rest.popFirst()?.text {
            // A sorted set's scores are doubles, told as text; ours are counts.
            if let counter = Int64(score) { counters.append((worker, counter)) }
        }
        toReap = lease.looked(counters, at: now, isGone: isGone)
    }

    private mutating func reaped(
        _ dead: LeaseMachine.Dead, _ items: [RedisReply], first: ClaimID, now: Instant
    ) -> Bool {
        guard items.count >= 2, let moved = items[0].integer, let recovered = items[1].integer.flatMap(Recovered.init) else {
            return false
        }
        isReapOut = false
        let count = items.count - 2
        if nextID == first.advanced(by: QueueMachine.mostSuspects) { nextID = first.advanced(by: count) }
        if moved < 0 { return true }
        hear(recovered, now: now)
        effects.append(.report(.recovered(worker: dead.worker, jobs: Int(moved) + count)))
        var suspects: [ClaimedJob] = []
        for (offset, item) in items.dropFirst(2).enumerated() {
            guard let bytes = item.bytes else { return false }
            let id = first.advanced(by: offset)
            held.insert(id, bytes: bytes, level: JobWindow.suspect)
            suspects.append(ClaimedJob(id: id, bytes: bytes))
        }
        if !suspects.isEmpty { effects.append(.report(.suspects(suspects))) }
        return true
    }

    private mutating func struckOff(_ reply: RedisReply) -> Bool {
        guard let held = reply.integer else { return false }
        if held == 0 {
            finish()
        } else {
            // Redis holds something for us that we do not know: fetch it, and give it back.
            startReconciling()
            expect(.fields)
        }
        return true
    }
}
