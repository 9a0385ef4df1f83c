import Platform

/// The jobs that this worker holds and their settlements, and the comparison of both with Redis.
struct JobsInFlight {
    private let mode: QueueSettings.DeliveryMode
    private(set) var held = JobWindow()
    private var settlements = Settlements()

    init(mode: QueueSettings.DeliveryMode) { self.mode = mode }

    /// Whether Redis has confirmed every settlement.
    var isSettled: Bool { settlements.isEmpty }
    /// Whether no job is held and every settlement is confirmed.
    var isEmpty: Bool { held.isEmpty && isSettled }
    /// Whether the parts of a split job are not known to be in the list.
    var isSplitting: Bool { settlements.isSplitting }
    /// The number of the last settlement that Redis has confirmed.
    var confirmed: UInt64 { settlements.confirmed }
    /// The number of the last settlement that has one.
    var sealed: UInt64 { settlements.lastSealed }
    /// The newest chunk that Redis has after the settlements that were sent.
    var newestChunk: UInt64? { held.newestChunk }

    // MARK: Jobs

    /// Holds the jobs of a new chunk.
    ///
    /// - Parameter isAside: whether they come from a side list.
    mutating func hold(
        _ jobs: [Lua.Job], chunk: UInt64, level: UInt8, isAside: Bool = false
    ) -> [ClaimedJob] {
        let jobs = jobs.enumerated().map { place, job in
            ClaimedJob(
                id: ClaimID(chunk: chunk, place: place), bytes: job.bytes, fullSize: job.fullSize,
                isAlone: level == JobWindow.isolated, wasClaimed: isAside || level > 0)
        }
        held.insert(jobs, chunk: chunk, level: level, isKept: mode == .atLeastOnce || level == JobWindow.suspect)
        return jobs
    }

    /// Holds jobs that Redis has in flight, and returns them; suspects are separate.
    mutating func fetched(
        _ items: [RedisReply], chunk: UInt64, places: [Int]
    ) -> (jobs: [ClaimedJob], suspects: [ClaimedJob]) {
        var jobs: [ClaimedJob] = []
        var suspects: [ClaimedJob] = []
        for (place, item) in zip(places, items) {
            guard let bytes = Lua.Job(item) else { continue }
            var job = ClaimedJob(
                id: ClaimID(chunk: chunk, place: place), bytes: bytes.bytes, fullSize: bytes.fullSize, wasClaimed: true)
            guard let level = held.insert(job) else { continue }
            job.isAlone = level == JobWindow.isolated
            if level == JobWindow.suspect { suspects.append(job) } else { jobs.append(job) }
        }
        return (jobs, suspects)
    }

    // MARK: Settlements

    mutating func acknowledge(_ id: ClaimID, now: Instant) { settlements.addAcknowledgement(id, now: now) }

    mutating func settle(_ settlement: Settlement, now: Instant) {
        let isKept = mode == .atLeastOnce || held.isKept(settlement.id)
        settlements.add(settlement, job: isKept ? nil : held.bytes(of: settlement.id), now: now)
    }

    /// Returns every held job to the head of the list that has no settlement, except suspects: the owner settles these.
    mutating func releaseAll(now: Instant) {
        if held.isEmpty { return }
        let settling = settlements.settlingIDs
        if settling.count >= held.count { return }
        for id in held.ids where !settling.contains(id) && held.level(of: id) < JobWindow.suspect {
            settle(Settlement(id: id, effect: .release(toTail: false)), now: now)
        }
    }

    /// Counts a push that APNs may receive twice.
    mutating func countMaybeDuplicate(now: Instant) { settlements.addMaybeDuplicates(1, now: now) }

    mutating func seal(includingHeads: Bool, includingAsideHeads: Bool) {
        settlements.seal(includingHeads: includingHeads, includingAsideHeads: includingAsideHeads)
    }

    func sealsAt(includingHeads: Bool, includingAsideHeads: Bool) -> Instant? {
        settlements.sealsAt(
            includingHeads: includingHeads, includingAsideHeads: includingAsideHeads, heldCount: held.count)
    }

    /// The apps to whose side lists jobs go with a settlement that Redis has not confirmed.
    var unconfirmedAsides: Set<String> { settlements.asides }

    /// The sealed batches that this connection has not sent, oldest first. From here on their jobs count as settled.
    mutating func takeUnsent() -> [SettleBatch] { settlements.takeUnsent(of: &held) }

    /// Redis has applied a batch.
    mutating func confirm(_ sequence: UInt64) {
        for id in settlements.confirm(sequence) { held.remove(id) }
    }

    /// Whether Redis has confirmed every settlement before the one with this number.
    func isOldestUnconfirmed(_ sequence: UInt64) -> Bool { settlements.unconfirmed.first?.sequence == sequence }

    mutating func connectionLost() { settlements.connectionLost() }

    // MARK: Reconciling

    /// Redis has applied all batches up to this one.
    mutating func confirm(through stored: UInt64) {
        for batch in settlements.unconfirmed where batch.sequence <= stored { confirm(batch.sequence) }
    }

    /// Redis returned to a state in which `stored` was the last batch.
    ///
    /// - Parameter most: the number of jobs that Redis can have again.
    mutating func rolledBack(to stored: UInt64, most: Int = .max, now: Instant) {
        settlements.addMaybeDuplicates(min(most, settlements.forgotten(after: stored)), now: now)
    }

    /// Counts pushes that another process of this name may have made.
    mutating func countMaybeDuplicates(_ count: Int, now: Instant) { settlements.addMaybeDuplicates(count, now: now) }

    /// Takes over which jobs Redis has in flight. Belongs before the unsent batches are taken.
    mutating func compare(with entries: [UInt64: [UInt8]]) { held.compare(with: entries) }

    /// Returns the held jobs that Redis does not have in flight. Call it after `compare`.
    ///
    /// A batch that failed in the middle has applied some of its settlements, and has marked their jobs in the entries of their
    /// chunks. These jobs are not missing: the batch is sent again, and skips them.
    func missing(from entries: [UInt64: [UInt8]]) -> [ClaimID] {
        let missing = held.missing
        if missing.isEmpty { return [] }
        let sealed = settlements.sealedIDs
        return missing.filter { entries[$0.chunk] == nil || !sealed.contains($0) }
    }

    /// Prepares to put these held jobs back into Redis.
    mutating func adopt(_ ids: [ClaimID]) -> [Adoption] { held.adopt(ids) }

    /// Removes held jobs that another worker has, and returns them without those that are being settled: their settlement
    /// counts them as possible duplicates.
    mutating func disown(_ missing: [ClaimID]) -> [ClaimID] {
        if missing.isEmpty { return [] }
        let settling = settlements.settlingIDs
        let gone = missing.filter { !settling.contains($0) }
        // Of `at_most_once`, Redis would apply the settlement of a chunk that it does not keep.
        if mode == .atLeastOnce { held.leave(Set(missing.map(\.chunk))) }
        for id in gone { held.remove(id) }
        return gone
    }

    /// Removes held jobs that Redis lacks for good. Returns those that are not being settled.
    mutating func drop(_ lost: [ClaimID]) -> [ClaimID] {
        let settling = settlements.settlingIDs
        for id in lost {
            held.settle(id)
            held.remove(id)
        }
        return lost.filter { !settling.contains($0) }
    }

    /// Removes every job that Redis keeps in the record of this worker, which belongs to another process. Returns those that are
    /// not being settled.
    ///
    /// - Parameter entries: if not `nil`, only the jobs that these chunks have in flight.
    mutating func abandon(onlyIn entries: [UInt64: [UInt8]]?, now: Instant) -> [ClaimID] {
        let gone = held.ids.filter { id in
            guard held.isKept(id) else { return false }
            guard let entries else { return true }
            guard let entry = entries[id.chunk], entry.count > id.place + 2 else { return false }
            return entry[id.place + 2] == ChunkEntry.mark
        }
        let unsettled = drop(gone)
        settlements.withdraw(Set(gone.filter { held.isKept($0) }), now: now)
        return unsettled
    }

    /// The jobs in flight that are not held, in pieces.
    func unknown(atMost most: Int) -> [(chunk: UInt64, places: [Int])] {
        held.unknown.flatMap { chunk, places in
            stride(from: 0, to: places.count, by: most).map { (chunk, Array(places[$0..<min($0 + most, places.count)])) }
        }
    }
}

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
        for index in first..<unconfirmed.endIndex { held.address(&unconfirmed[index]) }
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
