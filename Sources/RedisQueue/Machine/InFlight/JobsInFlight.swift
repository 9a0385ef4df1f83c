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
        _ jobs: [ScriptReply.JobBytes], chunk: UInt64, level: UInt8, isAside: Bool = false
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
            guard let bytes = ScriptReply.JobBytes(item) else { continue }
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
    mutating func adopt(_ ids: [ClaimID]) -> [Call.Adopted] { held.adopt(ids) }

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
            return entry[id.place + 2] == Chunk.mark
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
