import Platform

/// The jobs that this worker holds and their settlements: those that gather, the batches that were sent, and the comparison of
/// all with Redis.
struct Holdings {
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

        mutating func add(_ step: HeadStep, now: Instant) {
            if since == nil { since = now }
            if case .split = step.settlement.effect { splits += 1 }
            steps.append(step)
        }
    }

    /// With a batch every 5 ms this is 5 s, and an append-only file loses one second. Older entries are merged.
    private static let historyLength = 1024
    private static let interval = Duration.milliseconds(5)
    private static let fewJobs = 32

    /// Whether Redis keeps the jobs in chunks. Suspects it always keeps.
    private let keepsJobs: Bool
    private(set) var chunks = Chunks()
    private var pending = SettleBatch()
    private var heads = Heads()
    /// Those for the heads of side lists.
    private var asideHeads = Heads()
    /// The time of the first that still gathers. Those for the head of a list have their own.
    private var gatheringSince: Instant?
    /// Sealed, oldest first.
    private var unconfirmed: [SettleBatch] = []
    /// The number of the last batch that Redis has confirmed.
    private(set) var confirmed: UInt64 = 0
    private(set) var lastSealed: UInt64 = 0
    private var lastSent: UInt64 = 0
    /// The last confirmed batches, for the case that Redis loses them.
    private var history: [(sequence: UInt64, responded: Int)] = []
    /// Whether a job has become several pushes: this worker has replaced one by its parts, or holds tokens of a campaign.
    private var hasParts = false
    /// Another process may put back the same jobs as this one.
    private var sharesJobs = false

    init(keepsJobs: Bool) { self.keepsJobs = keepsJobs }

    /// Whether Redis has confirmed every settlement.
    var isSettled: Bool {
        pending.isEmpty && heads.steps.isEmpty && asideHeads.steps.isEmpty && unconfirmed.isEmpty
    }

    /// Whether no job is held and every settlement is confirmed.
    var isEmpty: Bool { chunks.isEmpty && isSettled }

    /// Whether the parts of a split job are not known to be in the list.
    var isSplitting: Bool { heads.splits + asideHeads.splits > 0 || unconfirmed.indices.contains { unconfirmed[$0].splits > 0 } }

    // MARK: Jobs

    /// Holds the jobs of a new chunk.
    ///
    /// - Parameters:
    ///   - source: Redis always keeps the tokens of a campaign.
    ///   - rank: the rank before the first one; `nil` if it is unknown.
    mutating func hold(
        _ jobs: [Lua.Job], chunk: UInt64, level: UInt8 = 0, from source: Claim.Source = .list, rank: UInt64? = nil
    ) -> [ClaimedJob] {
        let (wasClaimed, isFromSlot, isCampaign) =
            switch source {
            case .list: (level > 0, false, false)
            case .aside: (true, false, false)
            case .slots: (true, true, false)
            case .campaign: (level > 0, false, true)
            }
        let jobs = jobs.enumerated().map { place, job in
            ClaimedJob(
                id: ClaimID(chunk: chunk, place: place), bytes: job.bytes, fullSize: job.fullSize,
                isAlone: level == Chunks.isolated, wasClaimed: wasClaimed,
                rank: rank.map { $0 + UInt64(place) + 1 } ?? 0, isFromSlot: isFromSlot)
        }
        let isKept = keepsJobs || isCampaign || level == Chunks.suspect
        if isCampaign { hasParts = true }
        chunks.insert(jobs, chunk: chunk, level: level, isKept: isKept, rank: rank)
        return jobs
    }

    /// Holds jobs that Redis has in flight, and returns them; suspects are separate.
    mutating func fetched(_ items: [RedisReply], _ fetch: Fetch) -> (jobs: [ClaimedJob], suspects: [ClaimedJob]) {
        var jobs: [ClaimedJob] = []
        var suspects: [ClaimedJob] = []
        for (place, item) in zip(fetch.places, items) {
            guard let found = Lua.Job(item) else { continue }
            let id = ClaimID(chunk: fetch.chunk, place: place)
            var job = ClaimedJob(
                id: id, bytes: found.bytes, fullSize: found.fullSize, wasClaimed: true, rank: chunks.rank(of: id))
            guard let level = chunks.insert(job) else { continue }
            job.isAlone = level == Chunks.isolated
            if level == Chunks.suspect { suspects.append(job) } else { jobs.append(job) }
        }
        return (jobs, suspects)
    }

    // MARK: Settlements

    /// The path of nearly all jobs: see `SettleBatch.addAcknowledgement`.
    mutating func acknowledge(_ id: ClaimID, ofCampaign campaign: String? = nil, now: Instant) {
        if pending.isEmpty { gatheringSince = now }
        pending.addAcknowledgement(id, ofCampaign: campaign)
        if pending.isFull { sealPending() }
    }

    mutating func settle(_ settlement: Settlement, now: Instant) {
        let isKept = keepsJobs || chunks.isKept(settlement.id)
        let job = isKept ? nil : chunks.bytes(of: settlement.id)
        switch settlement.effect {
        case .release(toTail: false), .replace(_, toTail: false), .split:
            if case .split = settlement.effect { hasParts = true }
            let step = HeadStep(settlement: settlement, job: job)
            if settlement.aside == nil { heads.add(step, now: now) } else { asideHeads.add(step, now: now) }
        default:
            if pending.isEmpty { gatheringSince = now }
            pending.add(settlement, job: job, level: min(chunks.level(of: settlement.id), Chunks.isolated))
            if pending.isFull { sealPending() }
        }
    }

    /// Returns every held job to the head of the list that has no settlement, except suspects: the owner settles these.
    mutating func releaseAll(now: Instant) {
        if chunks.isEmpty { return }
        let settling = settlingIDs
        if settling.count >= chunks.count { return }
        for id in chunks.ids where !settling.contains(id) && chunks.level(of: id) < Chunks.suspect {
            settle(Settlement(id: id, effect: release(of: id)), now: now)
        }
    }

    /// A job with a scope keeps its rank.
    private func release(of id: ClaimID) -> Settlement.Effect {
        let rank = chunks.rank(of: id)
        guard rank > 0, let job = chunks.bytes(of: id), RankMark.isNeeded(job), !chunks.isAbridged(id) else {
            return .release(toTail: false)
        }
        return .replace(with: RankMark.adding(rank, to: job), toTail: false)
    }

    /// Counts pushes that APNs may receive twice, or that another process of this name may have made.
    mutating func countMaybeDuplicates(_ count: Int = 1, now: Instant) {
        if count <= 0 { return }
        if pending.isEmpty { gatheringSince = now }
        pending.maybeDuplicates += count
    }

    /// Counts an outcome of a campaign that settles no job.
    mutating func count(_ outcome: CampaignOutcome, now: Instant) {
        if pending.isEmpty { gatheringSince = now }
        pending.count(outcome)
    }

    /// The apps to whose side lists jobs go with a settlement that Redis has not confirmed.
    var unconfirmedAsides: Set<String> {
        var apps = Set(pending.asides)
        for head in asideHeads.steps { if let app = head.settlement.aside { apps.insert(app) } }
        for batch in unconfirmed { apps.formUnion(batch.asides) }
        return apps
    }

    // MARK: Batches

    /// The time at which the gathered settlements are due. Few jobs are no batch: theirs are due at once, if none is on its way.
    ///
    /// - Parameters:
    ///   - includingHeads: whether the jobs for the head of the list are included.
    ///   - includingAsideHeads: the same for the heads of side lists.
    ///
    /// `mutating`, because Swift 6.3 copies the whole value for a function that is not.
    mutating func sealsAt(includingHeads: Bool, includingAsideHeads: Bool) -> Instant? {
        var first = Earliest(gatheringSince)
        if includingHeads { first.consider(heads.since) }
        if includingAsideHeads { first.consider(asideHeads.since) }
        guard let since = first.instant else { return nil }
        if chunks.count <= Holdings.fewJobs && unconfirmed.isEmpty { return since }
        return since + Holdings.interval
    }

    /// Closes the gathered batch: it gets its number, and waits for its confirmation.
    mutating func seal(includingHeads: Bool, includingAsideHeads: Bool) {
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

    private mutating func sealPending() {
        if pending.isEmpty { return }
        lastSealed += 1
        pending.sequence = lastSealed
        var sealed = SettleBatch()
        swap(&sealed, &pending)
        unconfirmed.append(sealed)
    }

    /// The oldest sealed batch that this connection has not sent. From here on its jobs count as settled.
    ///
    /// - Parameter launched: see `SettleBatch.launched`.
    mutating func nextUnsent(behind launched: UInt64 = 0) -> SettleBatch? {
        if lastSent == lastSealed { return nil }
        let index = unconfirmed.indices.last { unconfirmed[$0].sequence <= lastSent }.map { $0 + 1 } ?? 0
        guard index < unconfirmed.count else {
            lastSent = lastSealed
            return nil
        }
        chunks.address(&unconfirmed[index])
        unconfirmed[index].launched = launched
        lastSent = unconfirmed[index].sequence
        return unconfirmed[index]
    }

    /// Batches that were sent may never have arrived.
    mutating func connectionLost() { lastSent = 0 }

    /// Whether Redis has confirmed every settlement before the one with this number.
    func isOldestUnconfirmed(_ sequence: UInt64) -> Bool { unconfirmed.first?.sequence == sequence }

    /// Redis has applied a batch. Nothing happens when it was confirmed before.
    mutating func confirm(_ sequence: UInt64) {
        guard let place = unconfirmed.indices.first(where: { unconfirmed[$0].sequence == sequence }) else { return }
        let batch = unconfirmed.remove(at: place)
        confirmed = max(confirmed, sequence)
        history.append((sequence, batch.responded))
        if history.count >= 2 * Holdings.historyLength { mergeOldest() }
        for id in batch.ids { chunks.remove(id) }
    }

    /// Merges entries two by two, under the later number, so that the count of lost responses is never too low.
    private mutating func mergeOldest() {
        let (old, new) = (history.prefix(Holdings.historyLength), history.dropFirst(Holdings.historyLength))
        let merged = stride(from: old.startIndex, to: old.endIndex, by: 2).map { place in
            (sequence: old[place + 1].sequence, responded: old[place].responded + old[place + 1].responded)
        }
        history = merged + new
    }

    /// The jobs that their owner has settled.
    private var settlingIDs: Set<ClaimID> {
        var ids = sealedIDs.union(pending.ids)
        for head in heads.steps + asideHeads.steps { ids.insert(head.settlement.id) }
        return ids
    }

    /// The jobs in the sealed batches.
    private var sealedIDs: Set<ClaimID> { unconfirmed.reduce(into: []) { $0.formUnion($1.ids) } }

    // MARK: Comparison with Redis

    /// Compares the jobs of this worker with those that Redis has, after a registration: takes over settlements that were applied
    /// and jobs in flight, drops jobs that another worker has, and counts those of which Redis forgot the settlement.
    ///
    /// - Parameter nextChunk: the number of the next claim. A former state of this process cannot know chunks that the process
    ///   has claimed since.
    /// - Returns: the dropped jobs that are not being settled, and the held jobs that are to be put back.
    mutating func compare(
        _ reply: Registration.Registered, _ finding: Reconciliation.Finding, nextChunk: UInt64, now: Instant
    ) -> (disowned: [ClaimID], lacking: [ClaimID]) {
        let strange = reply.chunks.filter { $0.key >= nextChunk }
        countMaybeDuplicates(strange.values.reduce(0) { $0 + (Chunk(entry: $1)?.inFlightCount ?? 0) }, now: now)
        if let stored = reply.settled {
            for batch in unconfirmed where batch.sequence <= stored { confirm(batch.sequence) }
        }
        chunks.compare(with: reply.chunks)
        switch finding {
        case .unchanged: break
        // Nothing is pushed again, unless Redis returned to a state before its first worker. A job may be many pushes then.
        case .emptied: rolledBack(to: 0, most: hasParts && reply.jobs > 0 ? .max : reply.jobs, now: now)
        case .rolledBack(let stored): rolledBack(to: stored, now: now)
        }
        let disowned = disown(missing(from: reply.chunks).filter { isElsewhere($0, reply.taken, finding) })
        let lacking = keepsJobs ? missing(from: reply.chunks) : []
        if sharesJobs { countMaybeDuplicates(lacking.count, now: now) }
        sharesJobs = false
        return (disowned, lacking)
    }

    /// Whether another worker has taken over a held job that Redis does not have in flight for this one.
    private func isElsewhere(_ id: ClaimID, _ taken: Registration.TakenChunks, _ finding: Reconciliation.Finding) -> Bool {
        // Without chunks, Redis has only suspects in flight, and these are not put back.
        if !keepsJobs { return true }
        switch taken {
        case .these(let chunks): return chunks.contains(id.chunk)
        case .unknown: return finding == .unchanged
        }
    }

    /// Redis returned to a state in which `stored` was the last batch.
    ///
    /// - Parameter most: the number of jobs that Redis can have again.
    private mutating func rolledBack(to stored: UInt64, most: Int = .max, now: Instant) {
        countMaybeDuplicates(forgotten(after: stored, atMost: most), now: now)
    }

    /// Returns how many jobs with a response Redis has again after that. Those that it does not have now it may have later: an
    /// emptied Redis may return to an earlier state.
    mutating func forgotten(after stored: UInt64, atMost most: Int = .max) -> Int {
        guard let newest = history.last?.sequence, newest > stored else { return 0 }
        let lost = history.reduce(0) { $1.sequence > stored ? $0 + $1.responded : $0 }
        let count = min(most, lost)
        history.removeAll { $0.sequence > stored }
        if count < lost { history.append((newest, lost - count)) }
        return count
    }

    /// Returns the held jobs that Redis does not have in flight. Call it after `chunks.compare`.
    ///
    /// A batch that failed in the middle has applied some of its settlements, and has marked their jobs in the entries of their
    /// chunks. These jobs are not missing: the batch is sent again, and skips them.
    private func missing(from entries: [UInt64: [UInt8]]) -> [ClaimID] {
        let missing = chunks.missing
        if missing.isEmpty { return [] }
        let sealed = sealedIDs
        return missing.filter { entries[$0.chunk] == nil || !sealed.contains($0) }
    }

    /// Removes held jobs that another worker has, and returns them without those that are being settled: their settlement
    /// counts them as possible duplicates.
    private mutating func disown(_ missing: [ClaimID]) -> [ClaimID] {
        if missing.isEmpty { return [] }
        let settling = settlingIDs
        let gone = missing.filter { !settling.contains($0) }
        // Redis would apply the settlement of a chunk that it never kept.
        if keepsJobs { chunks.leave(Set(missing.map(\.chunk))) }
        for id in gone { chunks.remove(id) }
        return gone
    }

    /// Prepares to put these held jobs back into Redis.
    mutating func adopt(_ lacking: [ClaimID]) -> [Adoption] { chunks.adopt(lacking) }

    /// Removes held jobs that Redis lacks for good. Returns those that are not being settled.
    mutating func drop(_ lost: [ClaimID]) -> [ClaimID] {
        let settling = settlingIDs
        for id in lost {
            chunks.settle(id)
            chunks.remove(id)
        }
        return lost.filter { !settling.contains($0) }
    }

    /// The record of this worker belongs to another process, and with it the jobs in flight. Settlements of these jobs are sent
    /// under the new name: they have no effect, and count the jobs as possible duplicates.
    ///
    /// Redis may also have lost data. Then the jobs that the record does not have in flight exist perhaps only here: they are
    /// kept, and put back under the new name.
    ///
    /// - Returns: the removed jobs that are not being settled.
    mutating func abandon(
        _ record: Registration.Foreign, _ finding: Reconciliation.Finding, now: Instant
    ) -> [ClaimID] {
        if case .rolledBack(let stored) = finding { rolledBack(to: stored, now: now) }
        sharesJobs = finding != .unchanged
        let gone = chunks.ids.filter { id in
            guard chunks.isKept(id) else { return false }
            if !sharesJobs { return true }
            guard let entry = record.chunks[id.chunk], entry.count > id.place + 2 else { return false }
            return entry[id.place + 2] == ChunkEntry.mark
        }
        let unsettled = drop(gone)
        withdraw(Set(gone.filter { chunks.isKept($0) }), now: now)
        return unsettled
    }

    /// Counts these jobs, which another process has, as possible duplicates, if they are being settled. This worker keeps other
    /// jobs of their chunks: Redis would take each acknowledgement for one of those, and skip each step.
    private mutating func withdraw(_ gone: Set<ClaimID>, now: Instant) {
        if gone.isEmpty { return }
        var count = pending.withdraw(gone)
        for index in unconfirmed.indices { count += unconfirmed[index].withdraw(gone) }
        countMaybeDuplicates(count, now: now)
    }

    /// The calls for the jobs in flight that are not held, each for this many jobs at most.
    func fetches(atMost most: Int) -> [Fetch] {
        chunks.unknown.flatMap { chunk, places in
            stride(from: 0, to: places.count, by: most).map { start in
                Fetch(chunk: chunk, places: Array(places[start..<min(start + most, places.count)]))
            }
        }
    }
}
