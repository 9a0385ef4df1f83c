import SystemTime

/// Decides when jobs are claimed, how many, and when to wait for some.
///
/// The owner offers places. They are claimed at once when they are worth a round trip, and otherwise a little later, together
/// with those that come free in the meantime. A list that was found empty is waited for on the second connection.
struct Claims {
    /// The facts outside this value on which a claim depends.
    struct Situation {
        var heldCount: Int
        var heldBytes: Int
        /// A job is held that must be alone.
        var holdsIsolated: Bool
        /// Held jobs that were in flight at two crashes.
        var heldTwiceCrashed: Int
        /// The parts of a split job are not known to be in the list.
        var isSplitting: Bool
        var isInDoubt: Bool
        /// The number of the last confirmed settlement.
        var confirmed: UInt64
        var outstanding: OutstandingCalls

        /// The wait is over and the reply of its claim on the way: another claim now would want the same places.
        var isPiggybackArriving: Bool { outstanding.contains(.piggybackedClaim) && !outstanding.contains(.wait) }
    }

    /// Ids in rising order, reserved by the calls that may need them.
    struct IDs {
        private(set) var next = ClaimID(1)

        mutating func reserve(_ count: Int) -> ClaimID {
            defer { next = next.advanced(by: count) }
            return next
        }

        /// Frees the reserved ids that were not used, unless later ids are reserved.
        mutating func free(from first: ClaimID, reserved: Int, used: Int) {
            if next == first.advanced(by: reserved) { next = first.advanced(by: used) }
        }
    }

    /// Most jobs of one claim, and most of those that were in flight at two crashes.
    static let mostJobs = 250
    private static let mostTwiceCrashed = 32
    /// Nothing is claimed while the held jobs have more bytes together.
    static let mostHeldBytes = 64 << 20
    /// Most jobs of a piggybacked claim. The next claim knows the places of its own time.
    private static let mostPiggybacked = 32
    /// Ids reserved for the suspects of one dead worker: it holds at most one, and those that it had taken over.
    static let mostSuspects = 65_536
    private static let patience = Duration.milliseconds(2)

    private let mode: QueueSettings.DeliveryMode
    var ids = IDs()
    private var places = 0
    /// The time since which there are places and no claim.
    private var offeredAt: Instant?
    /// A wait has ended with a job: the next claim does not wait for more places.
    private var isUrgent = false
    /// The number of jobs of the outstanding claim.
    private(set) var outstanding = 0
    /// A claim has brought jobs, and the owner has not responded since.
    private(set) var isFresh = false
    /// LPOP takes no count.
    private(set) var popsOne = false
    private var waiting = Waiting()
    private var recovered = RecoveredJobs()
    private var piggyback = PiggybackedClaim()
    private var size = ClaimSize()

    init(mode: QueueSettings.DeliveryMode) { self.mode = mode }

    // MARK: Facts

    mutating func offer(places: Int, now: Instant) {
        isFresh = false
        self.places = max(0, places)
        if self.places == 0 {
            offeredAt = nil
        } else if offeredAt == nil {
            offeredAt = now
        }
    }

    /// The owner settled a job.
    mutating func ownerResponded() { isFresh = false }

    /// The places count from now on: the connection serves, or a claim has to be repeated.
    mutating func restartOffer(now: Instant) { if places > 0 { offeredAt = now } }

    mutating func connectionLost() {
        if outstanding > 0 { size.claimLost() }
        outstanding = 0
        piggyback.reset()
        waiting.reset()
    }

    mutating func learned(_ kind: RecoveredJobs.Kind, now: Instant) {
        recovered.kind = kind
        if kind != .none && places > 0 && offeredAt == nil { offeredAt = now }
    }

    /// Takes in the reply of a claim.
    mutating func claimed(_ count: Int, _ kind: RecoveredJobs.Kind, isDrained: Bool, isPiggybacked: Bool, now: Instant) {
        recovered.kind = kind
        if isPiggybacked { isUrgent = false } else { outstanding = 0 }
        received(count, isDrained: isDrained, now: now)
    }

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

    mutating func popCountRefused(now: Instant) {
        popsOne = true
        outstanding = 0
        offeredAt = now
    }

    /// The wait has ended, with or without a job. `at_most_once` brings the job itself.
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

    /// The most fields of one fetch.
    var jobsOfFetch: Int { size.jobsOfFetch }
    mutating func fetchEnded(isComplete: Bool) { if isComplete { size.fetched() } else { size.fetchLost() } }

    // MARK: Inspections

    mutating func inspection(_ situation: Situation) -> Call {
        piggyback.inspection(isOutstanding: situation.outstanding.contains(.piggybackedClaim))
    }

    /// The list has jobs while the second connection waits for some: its reply is on the way, or the connection is dead.
    mutating func inspected(length: Int64) { if length > 0 { waiting.sawJobs() } }

    mutating func counted(_ count: Int64, _ situation: Situation) -> PiggybackedClaim.Finding {
        let isExplained = !situation.outstanding.contains(.piggybackedClaim) || outstanding > 0
        return piggyback.counted(count, held: isExplained ? nil : situation.heldCount)
    }

    mutating func foundForeignFields(_ count: Int) { piggyback.foreignFields = count }

    // MARK: Claiming

    /// Whether a claim is outstanding, or a piggybacked one about to arrive.
    func isClaiming(_ situation: Situation) -> Bool { outstanding > 0 || situation.isPiggybackArriving }

    /// Whether this list may hold jobs for which there are no places; a list of lower priority waits for it.
    func wantsPlaces(at now: Instant, _ situation: Situation) -> Bool { outstanding > 0 || mayFindJobs(at: now, situation) }

    /// While a job is split, nothing is claimed: its parts go before the jobs behind it. Otherwise the next job would be split,
    /// and so on, until a list of jobs for thousands of devices would be in memory as a whole.
    private func isWorthClaiming(at now: Instant, _ situation: Situation) -> Bool {
        outstanding == 0 && places > 0 && !situation.isSplitting && mayFindJobs(at: now, situation)
    }

    private func mayFindJobs(at now: Instant, _ situation: Situation) -> Bool {
        if situation.isInDoubt || situation.holdsIsolated || situation.isPiggybackArriving { return false }
        if situation.heldBytes > Claims.mostHeldBytes { return false }
        if mode == .atLeastOnce && recovered.stopsClaims(isHoldingJobs: situation.heldCount > 0, at: now) { return false }
        return recovered.isClaimable(isHoldingJobs: situation.heldCount > 0) || waiting.isWorthClaiming(at: now)
    }

    /// The first instant at which the places are worth a round trip.
    private func claimsAt(_ now: Instant, _ situation: Situation) -> Instant? {
        guard isWorthClaiming(at: now, situation), let offeredAt else { return nil }
        let enough = min(Claims.mostJobs, max(25, (places + situation.heldCount) / 8))
        let isDue = isUrgent || waiting.isPolling || recovered.kind != .none || places >= enough
        return isDue ? offeredAt : offeredAt + Claims.patience
    }

    /// The claim that is due now, if any.
    mutating func nextClaim(now: Instant, _ situation: Situation) -> Call? {
        recovered.update(isHoldingJobs: situation.heldCount > 0 && mode == .atLeastOnce, now: now)
        guard let claimsAt = claimsAt(now, situation), now >= claimsAt else { return nil }
        isUrgent = false
        offeredAt = nil
        let count = min(places, Claims.mostJobs)
        switch mode {
        case .atLeastOnce:
            outstanding = count
            return .claim(first: ids.reserve(count), count: count, fromSecond: twiceCrashedRoom(situation), mostBytes: size.bytes)
        case .atMostOnce where recovered.kind != .none:
            recovered.kind = .none
            offeredAt = now
            return .merge
        case .atMostOnce:
            outstanding = popsOne ? 1 : count
            return .pop(count: outstanding)
        }
    }

    private func twiceCrashedRoom(_ situation: Situation) -> Int {
        max(0, Claims.mostTwiceCrashed - situation.heldTwiceCrashed)
    }

    /// Whether to begin a wait now, and the claim to send behind it. No claim is sent while claims have a reason to wait.
    mutating func nextWait(_ situation: Situation) -> (begins: Bool, behindIt: Call?) {
        guard waiting.state == .empty, !isClaiming(situation), !situation.outstanding.contains(.wait), places > 0,
            !situation.isInDoubt, situation.heldBytes <= Claims.mostHeldBytes
        else { return (false, nil) }
        waiting.arm()
        guard mode == .atLeastOnce, recovered.kind == .none, !situation.isSplitting, !situation.holdsIsolated else {
            return (true, nil)
        }
        let count = min(places, Claims.mostPiggybacked)
        piggyback.reset()
        return (
            true,
            .piggybackedClaim(
                first: ids.reserve(count), count: count, fromSecond: twiceCrashedRoom(situation), mostBytes: size.bytes,
                after: situation.confirmed)
        )
    }

    /// A piggybacked claim has arrived that is not to be read.
    mutating func piggybackDiscarded() { isUrgent = false }

    /// The time at which `nextClaim` has something to do.
    func deadline(_ situation: Situation) -> Instant? {
        var next = Earliest(recovered.deadline)
        if outstanding == 0 && places > 0 {
            if let poll = waiting.nextPoll, isWorthClaiming(at: poll, situation) { next.consider(poll) }
            if let offeredAt { next.consider(claimsAt(offeredAt + Claims.patience, situation)) }
        }
        return next.instant
    }
}
