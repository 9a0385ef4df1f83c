import Clocks

/// After a (re)connect: what Redis knows of this worker, against what the worker knows of itself.
extension QueueMachine {
    mutating func registered(
        _ items: [RedisReply], sentAt: Instant, now: Instant, isGone: (String) -> Bool
    ) -> Bool {
        if items.count == 2, items[0].text == "NUMBER" {
            guard let taken = items[1].text.flatMap({ Int64($0) }) else { return false }
            numberTaken(taken)
            return true
        }
        guard items.count >= 6, let stored = items[1].text.flatMap({ Int64($0) }), let born = items[2].text,
            let recovered = items[3].integer.flatMap(Recovered.init), let due = items[4].integer,
            let letters = items[5].integer
        else { return false }
        lease.beatConfirmed(sentAt: sentAt)
        startReconciling()
        if let before = self.born, before != born {
            adoptAgain()
        } else if isRegistered, stored >= 0, UInt64(stored) < settlements.confirmed {
            settlements.addMaybeDuplicates(settlements.forgotten(after: UInt64(stored)), now: now)
            warnings.append("Redis was put back to an earlier state: what it has again is pushed again")
        }
        bornSeen = born
        lettersSeen = Int(letters)
        isRegistered = true
        hear(recovered, now: now)
        learned(due: due, now: now)
        look(at: items.dropFirst(6), now: now, isGone: isGone)
        sendSettlements()
        if isCluster { expect(.nodes) }
        if !hasWarned { expect(.info) }
        if mode == .atLeastOnce { expect(.fields) }
        finishReconciling(now: now)
        return true
    }

    /// Redis was emptied, or is another one: what we hold is nowhere else any more.
    private mutating func adoptAgain() {
        if mode == .atMostOnce { return warnings.append("Redis was emptied") }
        warnings.append("Redis was emptied: \(held.count) jobs that this worker holds were put back")
        var chunk: [Call.Adopted] = []
        var bytes = 0
        for id in held.ids {
            let job = held.bytes(of: id) ?? []
            chunk.append(.init(field: held.field(of: id), job: job))
            bytes += job.count
            if chunk.count == QueueMachine.mostClaimed || bytes > SettleBatch.mostBytes {
                call(.adopt(chunk))
                (chunk, bytes) = ([], 0)
            }
        }
        if !chunk.isEmpty { call(.adopt(chunk)) }
    }

    mutating func expect(_ call: Call) {
        answersMissing += 1
        effects.append(.call(call))
    }

    mutating func finishReconciling(now: Instant) {
        if answersMissing == 0 && phase == .reconciling { startServing(now: now) }
    }

    /// Redis' list of what we hold against our own.
    mutating func compared(_ items: [RedisReply], now: Instant) -> Bool {
        answersMissing -= 1
        var known: Set<ClaimID> = []
        var unknown: [(id: ClaimID, field: String)] = []
        for field in items.compactMap(\.text) {
            guard let (id, _) = JobWindow.parse(field: field), id < nextID else { continue }  // Not written by us.
            if held.contains(id) { known.insert(id) } else { unknown.append((id, field)) }
        }
        foreignFields = items.count - known.count - unknown.count
        disown(allBut: known)
        let fields = unknown.sorted { $0.id < $1.id }.map(\.field)
        for start in stride(from: 0, to: fields.count, by: QueueMachine.mostClaimed) {
            expect(.fetch(Array(fields[start..<min(start + QueueMachine.mostClaimed, fields.count)])))
        }
        finishReconciling(now: now)
        return true
    }

    private mutating func disown(allBut known: Set<ClaimID>) {
        if known.count == held.count { return }
        let settling = settlements.settlingIDs
        let gone = held.ids.filter { !known.contains($0) && !settling.contains($0) }
        if gone.isEmpty { return }
        for id in gone { held.remove(id) }
        effects.append(.report(.disowned(gone)))
    }

    mutating func fetched(_ items: [RedisReply], fields: [String], now: Instant) -> Bool {
        answersMissing -= 1
        var jobs: [ClaimedJob] = []
        var suspects: [ClaimedJob] = []
        for (field, item) in zip(fields, items) {
            guard let bytes = item.bytes, let (id, level) = JobWindow.parse(field: field) else { continue }
            held.insert(id, bytes: bytes, level: level)
            if level >= JobWindow.suspect {
                suspects.append(.init(id: id, bytes: bytes))
            } else {
                jobs.append(.init(id: id, bytes: bytes))
            }
        }
        hand(jobs)
        if !suspects.isEmpty { effects.append(.report(.suspects(suspects))) }
        finishReconciling(now: now)
        return true
    }

    mutating func informed(_ reply: RedisReply, now: Instant) -> Bool {
        answersMissing -= 1
        hasWarned = true
        let info = ServerInfo(reply.text ?? "")
        warnings += info.warnings
        if info.isCluster && !isCluster {
            isCluster = true
            expect(.nodes)
        }
        finishReconciling(now: now)
        return true
    }

    mutating func told(_ nodes: [RedisReply], now: Instant) -> Bool {
        answersMissing -= 1
        effects.append(.learn(nodes))
        finishReconciling(now: now)
        return true
    }
}
