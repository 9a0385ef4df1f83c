import Platform

/// Decides when jobs are claimed, how many, and when to wait for some.
///
/// The owner offers places. They are claimed at once when they are worth a round trip, and otherwise a little later, together
/// with those that come free in the meantime. A list that was found empty is waited for on the second connection.
struct Claims {
    /// Reasons in the other parts of the queue not to claim.
    struct Obstacles: OptionSet {
        let rawValue: UInt8

        /// Others may take over the jobs of this worker.
        static let doubt = Obstacles(rawValue: 1 << 0)
        /// The held jobs have too many bytes together.
        static let full = Obstacles(rawValue: 1 << 1)
        /// One of the held jobs must be alone in its worker.
        static let isolation = Obstacles(rawValue: 1 << 2)
        /// Redis has not yet confirmed the parts of a split job: they go before the jobs behind it. Otherwise the next job would
        /// be split, and so on, until a list of jobs for thousands of devices would be in memory as a whole.
        static let split = Obstacles(rawValue: 1 << 3)
    }

    /// A claim whose jobs are still to be read.
    struct Arrival {
        var claim: Claim
        /// The number of the chunk that has the jobs.
        var chunk: UInt64
        var reply: Claim.Reply
        var sentAt: Instant
    }

    /// Most held jobs that were in flight at two crashes.
    static let mostTwiceCrashed = 32
    /// Nothing is claimed while the held jobs have more bytes together.
    static let mostHeldBytes = 64 << 20
    private static let longestDelay = Duration.milliseconds(2)

    /// The number of the next chunk. Numbers rise, and none is used twice.
    private(set) var nextChunk: UInt64 = 1
    private var arrivals: [Arrival] = []
    private var places = 0
    /// The time since which there are places and no claim.
    private var offeredAt: Instant?
    /// A wait has ended with a job: the next claim does not wait for more places.
    private var isUrgent = false
    /// The number of jobs of the outstanding claim.
    private(set) var outstanding = 0
    /// A claim has brought jobs, and the owner has not responded since.
    private(set) var isFresh = false
    /// Jobs are fetched that only Redis knows.
    var isFetching = false
    private var waiting = Waiting()
    private var recovered: RecoveredJobs
    private(set) var piggyback = PiggybackedClaim()
    private var size = ClaimSize()
    var sides = SideLists()
    var slots = SlotTimers()
    var campaigns = Campaigns()
    private let byAddress = ByAddress()

    /// - Parameter isolates: whether a job that was in flight at three crashes is claimed alone.
    init(isolates: Bool) { recovered = RecoveredJobs(isolates: isolates) }

    // MARK: Facts

    mutating func offer(places: Int, now: Instant) {
        isFresh = false
        sides.isFresh = false
        self.places = max(0, places)
        if self.places == 0 {
            offeredAt = nil
        } else if offeredAt == nil {
            offeredAt = now
        }
    }

    /// The whole list is paused.
    mutating func withdrawOffers(now: Instant) {
        offer(places: 0, now: now)
        sides.withdrawOffers()
        slots.withdrawOffers()
        campaigns.withdrawOffers()
    }

    /// The owner settled a job.
    mutating func ownerResponded() {
        isFresh = false
        sides.isFresh = false
        recovered.isWithheld = false
    }

    /// The connection serves, and everything is fetched: the places count from now on.
    ///
    /// - Parameter chunks: the jobs that the worker holds.
    mutating func beginServing(holding chunks: Chunks, now: Instant) {
        if isFetching { size.fetched() }
        isFetching = false
        if places > 0 { offeredAt = now }
        campaigns.beginServing(holding: chunks, now: now)
    }

    mutating func connectionLost() {
        if outstanding > 0 || !arrivals.isEmpty { size.claimLost() }
        if isFetching { size.fetchLost() }
        sides.connectionLost()
        slots.connectionLost()
        campaigns.connectionLost()
        (outstanding, arrivals, isFetching) = (0, [], false)
        piggyback.end()
        waiting = Waiting()
    }

    mutating func learned(_ kind: Lua.Recovered, now: Instant) {
        (recovered.kind, recovered.isWithheld) = (kind, false)
        if kind != .none && places > 0 && offeredAt == nil { offeredAt = now }
    }

    /// Reserves the numbers of one or more chunks, and returns the first.
    mutating func reserve(_ count: UInt64 = 1) -> UInt64 {
        defer { nextChunk += count }
        return nextChunk
    }

    /// Redis has this chunk: the next numbers are above it.
    mutating func skip(through number: UInt64) { nextChunk = max(nextChunk, number + 1) }

    /// A claim has moved jobs to a chunk, and the jobs follow. Returns the number of the chunk if they are still to be fetched.
    mutating func expect(_ claim: Claim, _ reply: Claim.Reply, sentAt: Instant) -> UInt64? {
        let chunk = reply.isLarge ? claim.chunk + 1 : claim.chunk
        arrivals.append(Arrival(claim: claim, chunk: chunk, reply: reply, sentAt: sentAt))
        return reply.isLarge ? chunk : nil
    }

    /// The jobs of a chunk have arrived. Returns `nil` for a chunk that no claim has brought.
    mutating func takeArrival(of chunk: UInt64) -> Arrival? {
        arrivals.firstIndex { $0.chunk == chunk }.map { arrivals.remove(at: $0) }
    }

    /// A claim from the list is complete.
    mutating func claimed(_ claim: Claim, _ reply: Claim.Reply, now: Instant) {
        (recovered.kind, recovered.isWithheld) = (reply.recovered, reply.count == 0)
        if claim.isPiggybacked {
            isUrgent = false
            piggyback.end()
        } else {
            outstanding = 0
        }
        received(reply.count, isDrained: reply.isDrained, now: now)
    }

    /// Jobs were popped, or moved by a claim.
    mutating func popped(_ count: Int, isDrained: Bool, now: Instant) {
        outstanding = 0
        received(count, isDrained: isDrained, now: now)
    }

    private mutating func received(_ count: Int, isDrained: Bool, now: Instant) {
        isFresh = count > 0
        waiting.claimed(drained: isDrained, count: count, now: now)
        fill(count)
        if places > 0 { offeredAt = now }
    }

    /// Jobs have taken places.
    mutating func fill(_ count: Int) { places = max(0, places - count) }

    /// The claim has to be repeated in another form.
    mutating func refused(now: Instant) { (outstanding, offeredAt) = (0, now) }

    /// The wait has ended, with or without a job.
    ///
    /// - Parameter takenJobs: jobs that the wait itself has brought.
    mutating func waited(didFindJob: Bool, takenJobs: Int, now: Instant) {
        waiting.woke(somethingCame: didFindJob)
        if didFindJob { isUrgent = true }
        if takenJobs > 0 { received(takenJobs, isDrained: false, now: now) }
        if places > 0 && offeredAt == nil { offeredAt = now }
    }

    /// - Returns: the feature that the server lacks, if the error says so.
    mutating func waitFailed(_ error: ErrorReply, now: Instant) -> MissingFeature? {
        waiting.refused(error, now: now)
        return Waiting.missingFeature(error)
    }

    /// A claim on the first connection was answered.
    mutating func measured(_ bytes: @autoclosure () -> Int, within time: Duration) { size.claimed(bytes(), within: time) }

    /// The most jobs of one fetch.
    var jobsOfFetch: Int { size.jobsOfFetch }

    // MARK: The second connection

    var isWaiting: Bool { waiting.state == .armed }

    /// The wait has ended, and the reply to its claim is on its way: another claim would take the same places.
    private var isPiggybackArriving: Bool { piggyback.isOutstanding && !isWaiting }

    /// - Parameter found: the number of keys with jobs that the second connection has not reported.
    mutating func inspected(found: Int64) -> PiggybackedClaim.Finding {
        piggyback.inspected(found: (isWaiting || piggyback.isOutstanding) && outstanding == 0 ? found : 0)
    }

    /// Begins a wait if it is time for one, and returns whether it is.
    mutating func startsWait(_ obstacles: Obstacles) -> Bool {
        guard waiting.state == .empty, !isClaiming, places > 0, obstacles.isDisjoint(with: [.doubt, .full]) else { return false }
        waiting.arm()
        piggyback.end()
        return true
    }

    /// The claim to send behind the wait; `nil` while claims have a reason to wait.
    ///
    /// - Parameters:
    ///   - second: see `Claim.fromSecond`.
    ///   - confirmed: the last settlement that Redis has confirmed.
    mutating func claimBehindWait(second: Int, confirmed: UInt64, _ obstacles: Obstacles) -> Claim? {
        guard recovered.kind == .none, obstacles.isDisjoint(with: [.split, .isolation]) else { return nil }
        let count = min(places, PiggybackedClaim.mostJobs)
        let claim = Claim(chunk: reserve(2), count: count, fromSecond: second, mostBytes: size.bytes, after: confirmed)
        piggyback.begin(chunk: claim.chunk)
        return claim
    }

    // MARK: Claiming

    /// Whether a claim is outstanding, or a piggybacked one about to arrive.
    var isClaiming: Bool { outstanding > 0 || isPiggybackArriving }

    /// Whether this list may hold jobs for which there are no places; a list of lower priority waits for it.
    func wantsPlaces(at now: Instant, holding count: Int, _ obstacles: Obstacles) -> Bool {
        outstanding > 0 || mayFindJobs(at: now, holding: count, obstacles)
    }

    private func isWorthClaiming(at now: Instant, holding count: Int, _ obstacles: Obstacles) -> Bool {
        outstanding == 0 && places > 0 && !obstacles.contains(.split) && mayFindJobs(at: now, holding: count, obstacles)
    }

    private func mayFindJobs(at now: Instant, holding count: Int, _ obstacles: Obstacles) -> Bool {
        if isPiggybackArriving || !obstacles.isSubset(of: .split) { return false }
        if recovered.stopsClaims(isHoldingJobs: count > 0, at: now) { return false }
        return recovered.isClaimable(isHoldingJobs: count > 0) || waiting.isWorthClaiming(at: now)
    }

    /// The first instant at which the places are worth a round trip.
    private func claimsAt(_ now: Instant, holding count: Int, _ obstacles: Obstacles) -> Instant? {
        guard isWorthClaiming(at: now, holding: count, obstacles), let offeredAt else { return nil }
        let isDue = isUrgent || waiting.isPolling || recovered.kind != .none
        return Claims.claimsAt(isDue ? ChunkEntry.mostJobs : places, since: offeredAt, holding: count)
    }

    /// An eighth of the jobs that the worker may hold is claimed at once. Fewer places wait for others, because each claim has a
    /// constant cost.
    static func claimsAt(_ places: Int, since offeredAt: Instant, holding count: Int) -> Instant {
        let enough = min(ChunkEntry.mostJobs, max(25, (places + count) / 8))
        return places >= enough ? offeredAt : offeredAt + longestDelay
    }

    /// The number of jobs to claim now, if a claim is due. `begin` follows.
    mutating func takeDue(now: Instant, holding count: Int, _ obstacles: Obstacles) -> Int? {
        recovered.update(isHoldingJobs: count > 0, now: now)
        guard let claimsAt = claimsAt(now, holding: count, obstacles), now >= claimsAt else { return nil }
        isUrgent = false
        offeredAt = nil
        return min(places, ChunkEntry.mostJobs)
    }

    /// - Parameter second: see `Claim.fromSecond`.
    mutating func claim(_ count: Int, second: Int) -> Claim {
        outstanding = count
        return Claim(chunk: reserve(2), count: count, fromSecond: second, mostBytes: size.bytes)
    }

    /// Pops this many jobs instead of a claim.
    mutating func pop(_ count: Int) { outstanding = count }

    var hasRecovered: Bool { recovered.kind != .none }

    /// Instead of a claim, the recovered jobs move to the list.
    mutating func merge(now: Instant) {
        recovered.kind = .none
        offeredAt = now
    }

    /// Whether a side list may be claimed from. It may while a claim from the list is outstanding.
    private func mayClaimAside(_ now: Instant, holding count: Int, _ obstacles: Obstacles) -> Bool {
        obstacles.isEmpty && !recovered.stopsClaims(isHoldingJobs: count > 0, at: now)
    }

    /// A claim from another place than the list.
    mutating func claim(_ count: Int, from source: Claim.Source) -> Claim {
        Claim(chunk: reserve(2), count: count, fromSecond: 0, mostBytes: size.bytes, source: source)
    }

    /// The app from whose side list jobs are to be claimed now, and their number. A claim follows.
    mutating func takeDueAside(now: Instant, holding held: Int, _ obstacles: Obstacles) -> (app: String, count: Int)? {
        guard sides.claimsAt != nil, mayClaimAside(now, holding: held, obstacles) else { return nil }
        return sides.next(now: now)
    }

    /// The same for slots.
    mutating func takeDueSlots(now: Instant, holding held: Int, _ obstacles: Obstacles) -> (app: String, count: Int)? {
        guard slots.claimsAt != nil, mayClaimAside(now, holding: held, obstacles) else { return nil }
        return slots.next(now: now)
    }

    /// The campaign from which tokens are to be claimed now, and their number.
    mutating func takeDueCampaign(
        now: Instant, holding held: Int, _ obstacles: Obstacles
    ) -> (id: String, created: String, count: Int)? {
        guard mayClaimAside(now, holding: held, obstacles) else { return nil }
        return campaigns.next(now: now, holding: held)
    }

    /// The time at which there is something to claim.
    func deadline(holding count: Int, _ obstacles: Obstacles) -> Instant? {
        var next = Earliest(recovered.deadline)
        if outstanding == 0 && places > 0 {
            if let poll = waiting.nextPoll, isWorthClaiming(at: poll, holding: count, obstacles) { next.consider(poll) }
            if let offeredAt { next.consider(claimsAt(offeredAt + Claims.longestDelay, holding: count, obstacles)) }
        }
        var besides = Earliest(sides.claimsAt)
        besides.consider(slots.claimsAt)
        besides.consider(campaigns.claimsAt(holding: count))
        next.consider(campaigns.nextLook)
        if let claimsAt = besides.instant, mayClaimAside(claimsAt, holding: count, obstacles) { next.consider(claimsAt) }
        return next.instant
    }
}

/// When to look for jobs, and how to sleep until there are some.
///
/// While the list has jobs, claims follow each other. Once a claim has found it empty, the second connection waits with a
/// blocking command. Where Redis refuses that command, the list is polled.
struct Waiting {
    enum State: Equatable {
        /// The list has jobs as far as is known.
        case busy
        /// A claim found it empty, and no wait has begun.
        case empty
        /// The blocking command is outstanding.
        case armed
        /// The blocking command is refused: claim again at `next`, and block again at `retry` (`nil`: never).
        case polling(next: Instant, pause: Duration, retry: Instant?)
    }

    private(set) var state = State.busy

    /// A claim has shown whether the list is empty now.
    mutating func claimed(drained: Bool, count: Int, now: Instant) {
        switch state {
        case .armed: break
        case .polling(_, let pause, let retry):
            // An old Redis is polled every 5 ms while jobs arrive, and every 50 ms while none do.
            let next = count > 0 ? .milliseconds(5) : min(pause * 2, .milliseconds(50))
            if !drained {
                state = .polling(next: now, pause: .milliseconds(5), retry: retry)
            } else if let retry, now >= retry {
                state = .empty
            } else {
                state = .polling(next: now + next, pause: next, retry: retry)
            }
        case .busy, .empty: state = drained ? .empty : .busy
        }
    }

    mutating func arm() { state = .armed }

    /// The wait ended, with a job or at its timeout.
    mutating func woke(somethingCame: Bool) { state = somethingCame ? .busy : .empty }

    mutating func refused(_ error: ErrorReply, now: Instant) {
        switch error.kind {
        case .unblocked: state = .busy
        case .outOfMemory:
            state = .polling(next: now + .milliseconds(20), pause: .milliseconds(10), retry: now + .seconds(1))
        case .unknownCommand: state = .polling(next: now + .milliseconds(5), pause: .milliseconds(5), retry: nil)
        default: state = .polling(next: now + .milliseconds(50), pause: .milliseconds(50), retry: now + .seconds(5))
        }
    }

    /// The feature that the server lacks for good, by this error.
    static func missingFeature(_ error: ErrorReply) -> MissingFeature? {
        switch error.kind {
        case .unknownCommand: .blockingMove
        case .rightMissing: .waitRefused(error)
        default: nil
        }
    }

    var isPolling: Bool { nextPoll != nil }

    var nextPoll: Instant? {
        if case .polling(let next, _, _) = state { next } else { nil }
    }

    /// Whether a claim makes sense now.
    func isWorthClaiming(at now: Instant) -> Bool {
        switch state {
        case .busy: true
        case .empty, .armed: false
        case .polling(let next, _, _): now >= next
        }
    }
}

/// The jobs in the lists of recovered jobs, as far as this worker knows, and the isolation of those that need it.
///
/// A job that was in flight at three crashes is pushed alone. Under load a worker always holds jobs, so it stops claiming until
/// it holds none. The stop has a time limit, because the jobs that it holds may never be settled.
struct RecoveredJobs {
    private enum Isolation {
        case unneeded
        case awaited(until: Instant)
        case waived(until: Instant)
    }

    /// The time for which other claims wait for a job that must be alone, and then the time for which they do not wait.
    private static let isolationPeriod = Duration.seconds(30)

    private let isolates: Bool
    var kind = Lua.Recovered.none
    /// A claim has brought none of them: this worker holds as many twice-crashed jobs as it may.
    var isWithheld = false
    private var isolation = Isolation.unneeded

    init(isolates: Bool) { self.isolates = isolates }

    /// Call before each claim.
    mutating func update(isHoldingJobs: Bool, now: Instant) {
        let next = now + RecoveredJobs.isolationPeriod
        switch isolation {
        case _ where kind != .isolated || !isHoldingJobs || !isolates: isolation = .unneeded
        case .unneeded: isolation = .awaited(until: next)
        case .awaited(let until): if now >= until { isolation = .waived(until: next) }
        case .waived(let until): if now >= until { isolation = .awaited(until: next) }
        }
    }

    /// Whether claims wait until the worker holds nothing.
    func stopsClaims(isHoldingJobs: Bool, at now: Instant) -> Bool {
        if case .awaited(let until) = isolation { return kind == .isolated && isHoldingJobs && now < until }
        return false
    }

    /// Whether there is a recovered job that may be claimed now.
    func isClaimable(isHoldingJobs: Bool) -> Bool {
        if isHoldingJobs { kind == .some && !isWithheld } else { kind != .none }
    }

    var deadline: Instant? {
        switch isolation {
        case .unneeded: nil
        case .awaited(let until), .waived(let until): until
        }
    }
}

/// The most bytes of one claim, and the most jobs of one fetch, fitted to the speed of the link to Redis.
///
/// On a slow link a large reply delays the replies behind it, among them those to heartbeats. A reply should arrive within about
/// a second.
struct ClaimSize {
    static let mostBytes = 1 << 20
    static let leastBytes = 16 << 10
    private static let long = Duration.seconds(1)
    private static let short = Duration.milliseconds(250)

    /// One job may be larger.
    private(set) var bytes = Claim.firstBytes
    private(set) var jobsOfFetch = ChunkEntry.mostJobs

    /// A claim was answered after this time with this many bytes of jobs.
    mutating func claimed(_ count: @autoclosure () -> Int, within time: Duration) {
        if time > ClaimSize.long {
            bytes = max(ClaimSize.leastBytes, bytes / 2)
        } else if bytes < ClaimSize.mostBytes, time < ClaimSize.short, count() >= bytes / 2 {
            bytes = min(ClaimSize.mostBytes, bytes * 2)
        }
    }

    /// The connection broke before the reply to a claim or fetch.
    mutating func claimLost() { bytes = max(ClaimSize.leastBytes, bytes / 2) }
    mutating func fetchLost() { jobsOfFetch = max(1, jobsOfFetch / 2) }

    /// Everything was fetched.
    mutating func fetched() { jobsOfFetch = ChunkEntry.mostJobs }
}
