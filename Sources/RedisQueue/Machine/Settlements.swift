import Clocks

/// All settlements of one worker that Redis has not confirmed: those that gather, and the batches on their way.
struct Settlements {
    /// Something that goes to the head of the list. It is written at the end and backwards, so that of all that gathered
    /// the first claimed ends foremost.
    private struct HeadStep {
        var settlement: Settlement
        var field: String
        var job: [UInt8]?
    }

    private var pending = SettleBatch()
    private var heads: [HeadStep] = []
    /// Those of them that are replaced by their parts.
    private var headCuts = 0
    /// When the first that still gathers came in; those that go to the head of the list have their own.
    private(set) var gatheringSince: Instant?
    private(set) var headsSince: Instant?
    /// Sealed, oldest first.
    private(set) var unconfirmed: [SettleBatch] = []
    /// The number of the last batch that is known to be applied.
    private(set) var confirmed: UInt64 = 0
    private var lastSealed: UInt64 = 0
    private var lastSent: UInt64 = 0
    /// What the last confirmed batches held, for the case that Redis forgets them.
    private var history: [(sequence: UInt64, answered: Int)] = []
    /// At one batch every 5 ms this is 5 s, and an append-only file loses one. What is older becomes coarser and coarser.
    private static let historyLength = 1024

    var isEmpty: Bool { !isGathering && unconfirmed.isEmpty }
    var isGathering: Bool { !pending.isEmpty || !heads.isEmpty }

    /// Whether the parts of a job are not known to stand in the list yet.
    var isCutting: Bool { headCuts > 0 || unconfirmed.contains { $0.cuts > 0 } }

    /// The way of nearly all jobs: see `SettleBatch.addAcknowledgement`.
    mutating func addAcknowledgement(_ id: ClaimID, now: Instant) {
        if pending.isEmpty { gatheringSince = now }
        pending.addAcknowledgement(id)
        if pending.isFull { sealPending() }
    }

    mutating func add(_ settlement: Settlement, field: String, job: [UInt8]?, now: Instant) {
        switch settlement.effect {
        case .release(toTail: false), .replace(_, toTail: false), .split:
            if headsSince == nil { headsSince = now }
            if case .split = settlement.effect { headCuts += 1 }
            heads.append(HeadStep(settlement: settlement, field: field, job: job))
        default:
            if pending.isEmpty { gatheringSince = now }
            pending.add(settlement, field: field, job: job)
            if pending.isFull { sealPending() }
        }
    }

    /// Counts pushes that may be doubled and belong to no settlement of ours.
    mutating func addMaybeDuplicates(_ count: Int, now: Instant) {
        if count <= 0 { return }
        if pending.isEmpty { gatheringSince = now }
        pending.maybeDuplicates += count
    }

    /// Closes what gathers: from now on it has its number and waits for its confirmation.
    ///
    /// - Parameter includingHeads: whether also what goes to the head of the list.
    mutating func seal(includingHeads: Bool) {
        sealPending()
        gatheringSince = nil
        guard includingHeads else { return }
        heads.sort { $0.settlement.id > $1.settlement.id }
        for head in heads {
            pending.add(head.settlement, field: head.field, job: head.job)
            if pending.isFull { sealPending() }
        }
        sealPending()
        heads.removeAll()
        headCuts = 0
        headsSince = nil
    }

    private mutating func sealPending() {
        if pending.isEmpty { return }
        lastSealed += 1
        pending.sequence = lastSealed
        unconfirmed.append(pending)
        pending = SettleBatch()
    }

    /// Sealed batches that this connection has not carried yet, oldest first.
    mutating func takeUnsent() -> [SettleBatch] {
        if lastSent == lastSealed { return [] }
        defer { lastSent = lastSealed }
        return unconfirmed.filter { $0.sequence > lastSent }
    }

    /// What was sent may never have arrived.
    mutating func connectionLost() { lastSent = 0 }

    /// Redis has applied the batch: its jobs' ids, or nothing when it was confirmed before.
    mutating func confirm(_ sequence: UInt64) -> [ClaimID] {
        guard let place = unconfirmed.firstIndex(where: { $0.sequence == sequence }) else { return [] }
        let batch = unconfirmed.remove(at: place)
        confirmed = max(confirmed, sequence)
        history.append((sequence, batch.answered))
        if history.count >= 2 * Settlements.historyLength { mergeOldest() }
        return batch.ids
    }

    /// Two and two become one, under the later number: so what is forgotten is never counted as less.
    private mutating func mergeOldest() {
        let (old, new) = (history.prefix(Settlements.historyLength), history.dropFirst(Settlements.historyLength))
        let merged = stride(from: old.startIndex, to: old.endIndex, by: 2).map { place in
            (sequence: old[place + 1].sequence, answered: old[place].answered + old[place + 1].answered)
        }
        history = merged + new
    }

    /// Redis was put back to a state in which `stored` was the last batch: how many answered jobs it has again.
    mutating func forgotten(after stored: UInt64) -> Int {
        let lost = history.reduce(0) { $1.sequence > stored ? $0 + $1.answered : $0 }
        history.removeAll()
        return lost
    }

    /// Jobs that are settled as far as their owner is concerned.
    var settlingIDs: Set<ClaimID> {
        var ids = Set(pending.ids)
        for head in heads { ids.insert(head.settlement.id) }
        for batch in unconfirmed { ids.formUnion(batch.ids) }
        return ids
    }
}
