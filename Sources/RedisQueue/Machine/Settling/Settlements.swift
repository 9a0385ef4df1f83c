import Platform

/// The settlements of one worker that Redis has not confirmed: those that gather, and the batches that were sent.
struct Settlements {
    /// A job that returns to the head of the list. These are written last and backwards, so that the first claimed ends in front.
    private struct HeadStep {
        var settlement: Settlement
        var job: [UInt8]?
    }

    private struct Heads {
        var steps: [HeadStep] = []
        /// The number of them that are replaced by their parts.
        var splits = 0
        /// The time of the first that gathers.
        var since: Instant?
    }

    private var pending = SettleBatch()
    private var heads = Heads()
    /// Those for the heads of side lists.
    private var asideHeads = Heads()
    /// The time of the first that still gathers. Those for the head of a list have their own.
    private var gatheringSince: Instant?
    /// Sealed, oldest first.
    private(set) var unconfirmed: [SettleBatch] = []
    /// The number of the last batch that Redis has confirmed.
    private(set) var confirmed: UInt64 = 0
    private(set) var lastSealed: UInt64 = 0
    private var lastSent: UInt64 = 0
    /// The last confirmed batches, for the case that Redis loses them.
    private var history: [(sequence: UInt64, responded: Int)] = []
    /// With a batch every 5 ms this is 5 s, and an append-only file loses one second. Older entries are merged.
    private static let historyLength = 1024
    private static let interval = Duration.milliseconds(5)
    private static let fewJobs = 32

    var isEmpty: Bool { !isGathering && unconfirmed.isEmpty }
    var isGathering: Bool { !pending.isEmpty || !heads.steps.isEmpty || !asideHeads.steps.isEmpty }

    /// Whether the parts of a split job are not known to be in the list.
    var isSplitting: Bool { heads.splits + asideHeads.splits > 0 || unconfirmed.contains { $0.splits > 0 } }

    /// The path of nearly all jobs: see `SettleBatch.addAcknowledgement`.
    mutating func addAcknowledgement(_ id: ClaimID, now: Instant) {
        if pending.isEmpty { gatheringSince = now }
        pending.addAcknowledgement(id)
        if pending.isFull { sealPending() }
    }

    mutating func add(_ settlement: Settlement, job: [UInt8]?, now: Instant) {
        switch settlement.effect {
        case .release(toTail: false), .replace(_, toTail: false), .split:
            let step = HeadStep(settlement: settlement, job: job)
            if settlement.aside == nil {
                Settlements.add(step, to: &heads, now: now)
            } else {
                Settlements.add(step, to: &asideHeads, now: now)
            }
        default:
            if pending.isEmpty { gatheringSince = now }
            pending.add(settlement, job: job)
            if pending.isFull { sealPending() }
        }
    }

    private static func add(_ step: HeadStep, to heads: inout Heads, now: Instant) {
        if heads.since == nil { heads.since = now }
        if case .split = step.settlement.effect { heads.splits += 1 }
        heads.steps.append(step)
    }

    /// Counts pushes that APNs may receive twice.
    mutating func addMaybeDuplicates(_ count: Int, now: Instant) {
        if count <= 0 { return }
        if pending.isEmpty { gatheringSince = now }
        pending.maybeDuplicates += count
    }

    /// Counts these jobs, which another process has, as possible duplicates, if they are being settled. This worker keeps other
    /// jobs of their chunks: Redis would take each acknowledgement for one of those, and skip each step.
    mutating func withdraw(_ gone: Set<ClaimID>, now: Instant) {
        if gone.isEmpty { return }
        var count = pending.withdraw(gone)
        for index in unconfirmed.indices { count += unconfirmed[index].withdraw(gone) }
        addMaybeDuplicates(count, now: now)
    }

    /// The time at which the gathered settlements are due. Few jobs are no batch: theirs are due at once, if none is on its way.
    func sealsAt(includingHeads: Bool, includingAsideHeads: Bool, heldCount: Int) -> Instant? {
        var first = Earliest(gatheringSince)
        if includingHeads { first.consider(heads.since) }
        if includingAsideHeads { first.consider(asideHeads.since) }
        guard let since = first.instant else { return nil }
        if heldCount <= Settlements.fewJobs && unconfirmed.isEmpty { return since }
        return since + Settlements.interval
    }

    /// Closes the gathered batch: it gets its number, and waits for its confirmation.
    ///
    /// - Parameters:
    ///   - includingHeads: whether the jobs for the head of the list are included.
    ///   - includingAsideHeads: the same for the heads of side lists.
    mutating func seal(includingHeads: Bool, includingAsideHeads: Bool = true) {
        sealPending()
        gatheringSince = nil
        if includingHeads, !heads.steps.isEmpty {
            seal(heads.steps)
            heads = Heads()
        }
        if includingAsideHeads, !asideHeads.steps.isEmpty {
            seal(asideHeads.steps)
            asideHeads = Heads()
        }
    }

    private mutating func seal(_ heads: [HeadStep]) {
        for head in heads.sorted(by: { $0.settlement.id > $1.settlement.id }) {
            pending.add(head.settlement, job: head.job)
            if pending.isFull { sealPending() }
        }
        sealPending()
    }

    /// The apps to whose side lists jobs go with a settlement that Redis has not confirmed.
    var asides: Set<String> {
        var apps = Set(pending.asides)
        for head in asideHeads.steps { if let app = head.settlement.aside { apps.insert(app) } }
        for batch in unconfirmed { apps.formUnion(batch.asides) }
        return apps
    }

    private mutating func sealPending() {
        if pending.isEmpty { return }
        lastSealed += 1
        pending.sequence = lastSealed
        unconfirmed.append(pending)
        pending = SettleBatch()
    }

    /// The sealed batches that this connection has not sent, oldest first. From here on their jobs count as settled.
    mutating func takeUnsent(of held: inout JobWindow) -> [SettleBatch] {
        if lastSent == lastSealed { return [] }
        defer { lastSent = lastSealed }
        let first = unconfirmed.firstIndex { $0.sequence > lastSent } ?? unconfirmed.endIndex
        for index in first..<unconfirmed.endIndex { unconfirmed[index].address(&held) }
        return Array(unconfirmed[first...])
    }

    /// Batches that were sent may never have arrived.
    mutating func connectionLost() { lastSent = 0 }

    /// Redis has applied the batch. Returns the ids of its jobs, or none when it was confirmed before.
    mutating func confirm(_ sequence: UInt64) -> [ClaimID] {
        guard let place = unconfirmed.firstIndex(where: { $0.sequence == sequence }) else { return [] }
        let batch = unconfirmed.remove(at: place)
        confirmed = max(confirmed, sequence)
        history.append((sequence, batch.responded))
        if history.count >= 2 * Settlements.historyLength { mergeOldest() }
        return batch.ids
    }

    /// Merges entries two by two, under the later number, so that the count of lost responses is never too low.
    private mutating func mergeOldest() {
        let (old, new) = (history.prefix(Settlements.historyLength), history.dropFirst(Settlements.historyLength))
        let merged = stride(from: old.startIndex, to: old.endIndex, by: 2).map { place in
            (sequence: old[place + 1].sequence, responded: old[place].responded + old[place + 1].responded)
        }
        history = merged + new
    }

    /// Redis returned to a state in which `stored` was the last batch. Returns how many jobs with a response it has again.
    mutating func forgotten(after stored: UInt64) -> Int {
        let lost = history.reduce(0) { $1.sequence > stored ? $0 + $1.responded : $0 }
        history.removeAll()
        return lost
    }

    /// The jobs that their owner has settled.
    var settlingIDs: Set<ClaimID> {
        var ids = sealedIDs.union(pending.ids)
        for head in heads.steps + asideHeads.steps { ids.insert(head.settlement.id) }
        return ids
    }

    /// The jobs in the sealed batches.
    var sealedIDs: Set<ClaimID> { unconfirmed.reduce(into: []) { $0.formUnion($1.ids) } }
}
