import Platform

/// The jobs of one worker: which to claim, settle, promote and give back, and when. `QueueMachine` gives it turns while the
/// connection serves.
struct Workload {
    typealias Effect = QueueMachine.Effect

    private let mode: QueueSettings.DeliveryMode
    private(set) var jobs: JobsInFlight
    private var claims: Claims
    private var delayed = DelayedJobs()
    /// Of a wait, a piggybacked claim and a promotion.
    private var outstanding: OutstandingCalls = []
    private(set) var isStopping = false
    /// Jobs are fetched that only Redis knows.
    private var isFetching = false
    /// A stop has begun to return the side lists to Q.
    private var isReturningAsides = false
    /// Another process may put back the same jobs as this one.
    private var sharesJobs = false

    init(mode: QueueSettings.DeliveryMode) {
        self.mode = mode
        jobs = JobsInFlight(mode: mode)
        claims = Claims(mode: mode)
    }

    // MARK: The owner

    mutating func offer(places: Int, now: Instant) { claims.offer(places: places, now: now) }

    /// Places of one app, whose side list has jobs.
    mutating func offer(places: Int, aside app: String, now: Instant) {
        claims.sides.offer(places: places, app: app, now: now)
    }

    /// The whole list is paused.
    mutating func withdrawOffers(now: Instant) {
        claims.offer(places: 0, now: now)
        claims.sides.withdrawOffers()
    }

    mutating func restore(_ app: String) { claims.sides.restore(app) }

    mutating func acknowledge(_ id: ClaimID, now: Instant) {
        claims.ownerResponded()
        jobs.acknowledge(id, now: now)
    }

    mutating func settle(_ settlement: Settlement, now: Instant) {
        claims.ownerResponded()
        if let app = settlement.aside { claims.sides.setAside(app) }
        jobs.settle(settlement, now: now)
    }

    mutating func countMaybeDuplicate(now: Instant) { jobs.countMaybeDuplicate(now: now) }

    mutating func stop() { isStopping = true }

    /// Whether this list may hold jobs that could be claimed if there were places.
    mutating func wantsPlaces(at now: Instant, isInDoubt: Bool) -> Bool { claims.wantsPlaces(at: now, situation(isInDoubt)) }

    /// `mutating`, because Swift 6.3 copies the whole value for a function that is not.
    private mutating func situation(_ isInDoubt: Bool) -> Claims.Situation {
        Claims.Situation(
            heldCount: jobs.held.count, heldBytes: jobs.held.byteCount, holdsIsolated: jobs.held.holdsIsolated,
            heldTwiceCrashed: jobs.held.countOfLevel(2), isSplitting: jobs.isSplitting, isInDoubt: isInDoubt,
            confirmed: jobs.confirmed, outstanding: outstanding)
    }

    // MARK: Connection

    mutating func connectionLost() {
        outstanding = []
        jobs.connectionLost()
        claims.connectionLost()
        if isFetching { claims.fetchEnded(isComplete: false) }
        isFetching = false
    }

    mutating func beginServing(now: Instant) {
        if isFetching { claims.fetchEnded(isComplete: true) }
        isFetching = false
        claims.restartOffer(now: now)
    }

    // MARK: Time

    /// Does everything that is due.
    mutating func serve(now: Instant, isInDoubt: Bool, into effects: inout [Effect]) {
        if !outstanding.contains(.promotion), delayed.isDue(now: now) {
            outstanding.insert(.promotion)
            effects.append(.call(.promote))
        }
        let situation = situation(isInDoubt)
        settleIfDue(now: now, isClaiming: claims.isClaiming(situation), into: &effects)
        if let claim = claims.nextClaim(now: now, situation) { effects.append(.call(claim)) }
        if let claim = claims.nextAsideClaim(now: now, situation) { effects.append(.call(claim)) }
        if let app = claims.sides.nextReturn() { effects.append(.call(.restore(Restore(app: app, isStop: false)))) }
        if claims.startsWait(situation) {
            let claim = claims.claimBehindWait(situation)
            outstanding.insert(claim == nil ? .wait : [.wait, .piggybackedClaim])
            effects.append(.wait(claim))
        }
    }

    /// The time at which `serve` has something to do.
    mutating func deadline(isInDoubt: Bool) -> Instant? {
        let situation = situation(isInDoubt)
        var next = Earliest()
        if !isStopping {
            next.consider(claims.deadline(situation))
            if !outstanding.contains(.promotion) { next.consider(delayed.dueAt) }
        }
        next.consider(
            jobs.sealsAt(
                includingHeads: !claims.isClaiming(situation), includingAsideHeads: claims.sides.outstanding == nil))
        return next.instant
    }

    private mutating func settleIfDue(now: Instant, isClaiming: Bool, into effects: inout [Effect]) {
        // Jobs return to the head of the list together with those of an outstanding claim, which were behind them.
        let isClaimingAside = claims.sides.outstanding != nil
        if let due = jobs.sealsAt(includingHeads: !isClaiming, includingAsideHeads: !isClaimingAside), now >= due {
            jobs.seal(
                includingHeads: !isClaiming && !claims.isFresh,
                includingAsideHeads: !isClaimingAside && !claims.sides.isFresh)
        }
        sendSettlements(into: &effects)
    }

    /// Sends the sealed settlements that this connection has not sent.
    private mutating func sendSettlements(into effects: inout [Effect]) {
        for batch in jobs.takeUnsent() { effects.append(.call(.settle(batch))) }
    }

    /// Gives back the held jobs, and returns whether every settlement is confirmed. The owner settles suspects.
    mutating func leave(now: Instant, isInDoubt: Bool, into effects: inout [Effect]) -> Bool {
        let isClaiming = claims.isClaiming(situation(isInDoubt)) || claims.sides.outstanding != nil
        let isPopping = outstanding.contains(.wait) && mode == .atMostOnce
        if !isClaiming && !isPopping { jobs.releaseAll(now: now) }
        jobs.seal(includingHeads: !isClaiming, includingAsideHeads: !isClaiming)
        sendSettlements(into: &effects)
        return jobs.isEmpty && !isClaiming && !isPopping && returnAsides(into: &effects)
    }

    /// The last worker returns the side lists to Q, where an older version finds their jobs.
    ///
    /// - Returns: whether they are all gone, or stay with other workers.
    private mutating func returnAsides(into effects: inout [Effect]) -> Bool {
        if !isReturningAsides { for app in claims.sides.apps { claims.sides.restore(app) } }
        isReturningAsides = true
        if let app = claims.sides.nextReturn() { effects.append(.call(.restore(Restore(app: app, isStop: true)))) }
        return !claims.sides.isReturning
    }

    /// The other workers for which the side lists were to stay have stopped, too.
    mutating func returnAsidesAgain() { isReturningAsides = false }

    mutating func restored(_ app: String, left: Int64) { claims.sides.restored(app, left: left) }

    // MARK: Side lists

    mutating func learned(asides: Set<String>) {
        claims.sides.learned(asides, unconfirmed: jobs.unconfirmedAsides)
    }

    mutating func reportAsides(into effects: inout [Effect]) {
        if let apps = claims.sides.change() { effects.append(.report(.aside(apps))) }
    }

    /// `at_most_once`: jobs of a side list have left Redis.
    mutating func took(_ items: [RedisReply], of app: String, now: Instant, into effects: inout [Effect]) -> Bool {
        guard let left = items.first?.integer else { return false }
        let found = items.dropFirst().compactMap(Lua.Job.init)
        if found.count > ChunkEntry.mostJobs { return false }
        let taken = jobs.hold(found, chunk: claims.reserve(), level: 0, isAside: true)
        claims.sides.claimed(
            taken.count, of: app, isEmptied: left == 0, unconfirmed: jobs.unconfirmedAsides, now: now)
        report(claimed: taken, into: &effects)
        return true
    }

    // MARK: Claims

    /// Whether a good reply to this call shows that claims work, or that they need not.
    func shows(_ call: Call) -> Bool {
        switch call {
        case .claim, .pop: true
        case .wait: !outstanding.contains(.piggybackedClaim)
        case .beat: claims.outstanding == 0
        default: false
        }
    }

    mutating func claimed(
        _ claim: Claim, _ reply: Claim.Reply, sentAt: Instant, now: Instant, into effects: inout [Effect]
    ) {
        if reply.count == 0 {
            complete(claim, reply, now: now)
        } else if let chunk = claims.expect(claim, reply, sentAt: sentAt) {
            effects.append(.call(.fetch(Fetch(chunk: chunk, places: [0]))))
        }
    }

    private mutating func complete(_ claim: Claim, _ reply: Claim.Reply, now: Instant) {
        if claim.isPiggybacked { outstanding.remove(.piggybackedClaim) }
        if let app = claim.aside {
            let (count, isEmptied) = (reply.count, reply.isDrained)
            return claims.sides.claimed(
                count, of: app, isEmptied: isEmptied, unconfirmed: jobs.unconfirmedAsides, now: now)
        }
        claims.claimed(claim, reply, now: now)
    }

    /// The jobs of a chunk. The list is empty if the claim took nothing, or met NOSCRIPT and is sent again.
    ///
    /// - Returns: `nil` for a chunk that no claim has brought.
    mutating func arrived(
        _ items: [RedisReply], chunk: UInt64, now: Instant, into effects: inout [Effect]
    ) -> ReplyReading? {
        guard let arrival = claims.takeArrival(of: chunk) else { return nil }
        let found = items.compactMap(Lua.Job.init)
        if found.count != arrival.reply.count { return .lost("a claimed chunk is gone") }
        let claimed = jobs.hold(
            found, chunk: chunk, level: arrival.reply.level, isAside: arrival.claim.aside != nil)
        complete(arrival.claim, arrival.reply, now: now)
        if !arrival.claim.isPiggybacked {
            claims.measured(claimed.reduce(0) { $0 + $1.bytes.count }, within: now - arrival.sentAt)
        }
        report(claimed: claimed, into: &effects)
        return .good
    }

    /// - Returns: whether the reply has the form of one.
    mutating func popped(_ reply: RedisReply, asked: Int, now: Instant, into effects: inout [Effect]) -> Bool {
        let bytes: [RedisReply]
        switch reply {
        case .null: bytes = []
        case .string: bytes = [reply]
        case .array(let items): bytes = items
        default: return false
        }
        let found = bytes.compactMap(Lua.Job.init)
        if found.count > ChunkEntry.mostJobs { return false }
        claims.popped(found.count, isDrained: found.count < asked, now: now)
        report(claimed: jobs.hold(found, chunk: claims.reserve(), level: 0), into: &effects)
        return true
    }

    /// - Returns: whether this is new.
    mutating func popCountRefused(now: Instant) -> Bool {
        if claims.popsOne { return false }
        claims.popCountRefused(now: now)
        return true
    }

    mutating func waited(_ reply: RedisReply, now: Instant, into effects: inout [Effect]) {
        outstanding.remove(.wait)
        var taken: [ClaimedJob] = []
        if mode == .atMostOnce, let job = reply.items?.last.flatMap(Lua.Job.init) {
            taken = jobs.hold([job], chunk: claims.reserve(), level: 0)
        }
        claims.waited(didFindJob: reply != .null, takenJobs: taken.count, now: now)
        report(claimed: taken, into: &effects)
    }

    /// - Returns: the feature that the server lacks, if the error says so.
    mutating func waitFailed(_ error: ErrorReply, now: Instant) -> MissingFeature? {
        outstanding.remove(.wait)
        return claims.waitFailed(error, now: now)
    }

    /// A stopping worker gives them back instead.
    private func report(claimed jobs: [ClaimedJob], into effects: inout [Effect]) {
        if !jobs.isEmpty && !isStopping { effects.append(.report(.claimed(jobs))) }
    }

    private func report(suspects: [ClaimedJob], into effects: inout [Effect]) {
        if !suspects.isEmpty { effects.append(.report(.suspects(suspects))) }
    }

    var inspection: Call { claims.inspection }

    /// - Parameter found: the number of keys with jobs that the second connection has not reported.
    mutating func inspected(found: Int64) -> PiggybackedClaim.Finding {
        claims.inspected(found: found, isWaiting: !outstanding.isDisjoint(with: [.wait, .piggybackedClaim]))
    }

    // MARK: Other replies

    mutating func settled(_ sequence: UInt64, due: Lua.NextDue, now: Instant) {
        jobs.confirm(sequence)
        delayed.learned(due, now: now)
    }

    mutating func promoted(_ reply: Promotion.Reply, now: Instant) {
        outstanding.remove(.promotion)
        delayed.promoted(reply, now: now)
    }

    mutating func learned(_ recovered: Lua.Recovered, due: Lua.NextDue, now: Instant) {
        claims.learned(recovered, now: now)
        delayed.learned(due, now: now)
    }

    /// Reserves the number of a chunk for suspects.
    mutating func reserveChunk() -> UInt64 { claims.reserve() }

    mutating func reaped(recovered: Lua.Recovered, suspects: [Lua.Job], chunk: UInt64, now: Instant, into effects: inout [Effect])
    {
        claims.learned(recovered, now: now)
        report(suspects: jobs.hold(suspects, chunk: chunk, level: JobWindow.suspect), into: &effects)
    }

    // MARK: Reconciling

    /// Compares the jobs of this worker with those that Redis has, after a registration: takes over settlements that were applied
    /// and jobs in flight, drops jobs that another worker has, and puts the other held jobs back into a Redis that was emptied or
    /// returned to an earlier state.
    ///
    /// Until Redis has answered the calls that put jobs back, it may have none of these jobs: an emptied Redis must be recognized
    /// again after the next connect, and no settlement may be sent, because Redis skips that of a job that it does not have.
    ///
    /// - Returns: a warning, and the calls whose replies end the comparison.
    mutating func registered(
        _ reply: Registration.Registered, _ finding: Reconciliation.Finding, now: Instant, into effects: inout [Effect]
    ) -> (warning: String?, calls: [Call]) {
        takeMarks(of: reply, now: now)
        switch finding {
        case .unchanged: break
        // Nothing is pushed again, unless Redis returned to a state before its first worker.
        case .emptied: jobs.rolledBack(to: 0, most: reply.jobs, now: now)
        case .rolledBack(let stored): jobs.rolledBack(to: stored, now: now)
        }
        let disowned = jobs.disown(jobs.missing(from: reply.chunks).filter { isElsewhere($0, reply.taken, finding) })
        if !disowned.isEmpty { effects.append(.report(.disowned(disowned, .takenOver))) }
        let lacking = mode == .atLeastOnce ? jobs.missing(from: reply.chunks) : []
        if sharesJobs { jobs.countMaybeDuplicates(lacking.count, now: now) }
        sharesJobs = false
        let adoptions = jobs.adopt(lacking).map(Call.adopt)
        if adoptions.isEmpty { sendSettlements(into: &effects) }
        learned(reply.recovered, due: reply.due, now: now)
        return (Reconciliation.warning(finding, putBack: lacking.count), adoptions + missingJobs())
    }

    /// Whether another worker has taken over a held job that Redis does not have in flight for this one.
    private func isElsewhere(_ id: ClaimID, _ taken: Registration.TakenChunks, _ finding: Reconciliation.Finding) -> Bool {
        // Of `at_most_once`, Redis has only suspects in flight, and these are not put back.
        if mode == .atMostOnce { return true }
        switch taken {
        case .these(let chunks): return chunks.contains(id.chunk)
        case .unknown: return finding == .unchanged
        }
    }

    /// Takes over the settlements that Redis has applied, and its marks of the jobs in flight.
    private mutating func takeMarks(of reply: Registration.Registered, now: Instant) {
        // A former state of this process cannot know chunks that the process has claimed since.
        let strange = reply.chunks.filter { $0.key >= claims.nextChunk }
        if !strange.isEmpty {
            let count = strange.values.reduce(0) { $0 + (Chunk(entry: $1)?.inFlightCount ?? 0) }
            jobs.countMaybeDuplicates(count, now: now)
        }
        if let newest = reply.chunks.keys.max() { claims.skip(through: newest) }
        if let stored = reply.settled { jobs.confirm(through: stored) }
        jobs.compare(with: reply.chunks)
    }

    /// Jobs were put back, except those at these positions.
    mutating func adopted(_ adopted: Adoption, _ reply: Adoption.Reply, into effects: inout [Effect]) {
        let lost = jobs.drop(reply.lost.filter { $0 < adopted.positions }.map { ClaimID(chunk: adopted.chunk, place: $0) })
        if !lost.isEmpty { effects.append(.report(.disowned(lost, .tooLarge))) }
    }

    /// The record of this worker belongs to another process, and with it the jobs in flight. Settlements of these jobs are sent
    /// under the new name: they have no effect, and count the jobs as possible duplicates.
    ///
    /// Redis may also have lost data. Then the jobs that the record does not have in flight exist perhaps only here: they are
    /// kept, and put back under the new name.
    mutating func abandon(
        _ record: Registration.Foreign, _ finding: Reconciliation.Finding, now: Instant, into effects: inout [Effect]
    ) {
        if case .rolledBack(let stored) = finding { jobs.rolledBack(to: stored, now: now) }
        sharesJobs = finding != .unchanged
        let gone = jobs.abandon(onlyIn: sharesJobs ? record.chunks : nil, now: now)
        if !gone.isEmpty { effects.append(.report(.disowned(gone, .otherProcess))) }
    }

    /// The calls for the jobs that only Redis knows.
    private mutating func missingJobs() -> [Call] {
        let pieces = jobs.unknown(atMost: claims.jobsOfFetch)
        isFetching = !pieces.isEmpty
        return pieces.map { .fetch(Fetch(chunk: $0.chunk, places: $0.places)) }
    }

    mutating func fetched(_ items: [RedisReply], chunk: UInt64, places: [Int], into effects: inout [Effect]) {
        let (fetched, suspects) = jobs.fetched(items, chunk: chunk, places: places)
        claims.fill(fetched.count)
        report(claimed: fetched, into: &effects)
        report(suspects: suspects, into: &effects)
    }
}
