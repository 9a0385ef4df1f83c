import Platform
import PushPool
import RedisQueue

/// Ends jobs: makes the settlement, its records and its log line, and counts it. The caller decides which end a job has.
struct Settler {
    /// The settings for records and log lines.
    struct Options: Equatable {
        /// The share of delivered pushes that is logged, from 0 to 1.
        var loggedSuccesses = 0.0
        /// Whether log lines cut device tokens and omit `data`.
        var redacts = false
        /// Whether log lines name the push (`log_format` is `json`).
        var tagsLines = false
        /// Whether there is a stream of results.
        var recordsResults = false
    }

    /// The end of a held job, except an acceptance.
    enum End {
        /// It returns to its list, with its possible duplicates recorded.
        ///
        /// - `keepsDeadline`: whether it was sent, so that a relative expiry does not start again.
        case release(toTail: Bool = false, keepsDeadline: Bool = false)
        /// It is delayed without counting a retry. It has been sent: it keeps the deadline of its first send.
        case postpone(Duration)
        /// It waits in its slot, uncounted, until its channel or token may have another update. The pause is the one that APNs
        /// asks for.
        case pace(Outcome, Duration)
        /// It is delayed with a higher retry marker, or expires if its deadline comes first.
        case retry(Outcome, after: Duration)
        /// The verdict is for the feedback list; `nil` if the token is not the cause.
        case deadLetter(Outcome, TokenVerdict?)
        /// It expired before it was sent.
        case expire
        /// The dead letter holds the job with the filtered word in it, so that the operator sees which word it was.
        case filter
    }

    /// The reason why a claimed job is never held.
    enum ClaimFault {
        ///
        /// - `campaign`: of a token, whose claim has the single-token form of its job.
        /// - `scope`: from whose slot the job comes.
        case bad(JobError, campaign: String? = nil, scope: Scope? = nil)
        /// It was in flight at four crashes.
        case crashSuspect
    }

    /// The name of this worker at each list.
    private var workers: [String]
    private(set) var counters = Counters()
    private var sampler = SuccessSampler()

    init(workers: [String]) { self.workers = workers }

    mutating func renamed(to worker: String, list: Int) { workers[list] = worker }

    mutating func countClaims(_ count: Int) { counters.claimed += count }

    // MARK: Held jobs

    mutating func delivered(
        _ job: HeldJob, _ acceptance: Acceptance?, _ turn: borrowing Turn, _ effects: inout [DispatchEffect]
    ) {
        counters.sent += 1
        if let campaign = job.campaign { campaign.accepted += 1 }
        if turn.plan.settling.loggedSuccesses > 0, sampler.takesNext(share: turn.plan.settling.loggedSuccesses) {
            let push = tags(job, FinalOutcome(acceptance), turn)
            effects.append(push.map { .log(.sent(logged(job, turn), $0)) } ?? .logSent(logged(job, turn)))
        }
        if !turn.plan.settling.recordsResults && job.resends == 0 && !job.isFromSlot {
            if let campaign = job.campaign { return effects.append(.acknowledgeToken(job.claim, campaign)) }
            if job.job.campaign == nil { return effects.append(.acknowledge(job.claim, list: job.list)) }
        }
        let result = result(job, FinalOutcome(acceptance), turn)
        settle(job, Settlement(id: job.claim, effect: .ack, result: result), turn, &effects)
    }

    /// - Parameter aside: the app in whose side list a released job waits.
    mutating func end(
        _ job: HeldJob, _ end: End, aside: String? = nil, _ turn: borrowing Turn, _ effects: inout [DispatchEffect]
    ) {
        switch end {
        case .release(let toTail, let keepsDeadline):
            counters.released += 1
            let isMarked = job.maybeDuplicates > 0 || keepsDeadline && job.deadlineToKeep != nil
            // At shutdown the list gets the original bytes back, in their place.
            let toTail = toTail && !turn.isLeaving
            let effect: Settlement.Effect =
                isMarked && !turn.isLeaving ? .replace(with: marked(job), toTail: toTail) : .release(toTail: toTail)
            settle(job, Settlement(id: job.claim, effect: effect, aside: aside), turn, &effects)
        case .postpone(let pause):
            counters.postponed += 1
            let effect = Settlement.Effect.delay(job: marked(job), .after(pause), isRetry: false)
            settle(job, Settlement(id: job.claim, effect: effect), turn, &effects)
        case .pace(let outcome, let pause):
            counters.postponed += 1
            effects.append(.log(.paced(identifier: job.identifier, reason: outcome.logText)))
            var entry = slotEntry(job, marked(job), turn)
            (entry.throttle, entry.count) = (pause, .postponed)
            settle(job, Settlement(id: job.claim, effect: .slot(entry)), turn, &effects)
        case .retry(let outcome, let delay): retry(job, outcome, after: delay, turn, &effects)
        case .deadLetter(let outcome, let verdict):
            counters.dead += 1
            deadLetter(job, FinalOutcome(outcome), feedback: verdict, turn, &effects)
        case .expire: expire(job, wasSent: false, turn, &effects)
        case .filter:
            counters.dead += 1
            deadLetter(job, FinalOutcome(reason: "Filtered", wasSent: false), turn, &effects)
        }
    }

    private func marked(_ job: HeldJob) -> [UInt8] {
        job.job.markedAsDoubtful(job.doubtful, deadline: job.deadlineToKeep)
    }

    /// The bytes with the rank of the job and the channel of its name, which they keep outside of its chunk.
    private func marked(_ job: HeldJob, _ bytes: [UInt8]) -> [UInt8] {
        Job.marked(rank: job.job.rank == nil && job.rank > 0 ? job.rank : nil, channel: job.job.channelMark, bytes)
    }

    private mutating func retry(
        _ job: HeldJob, _ outcome: Outcome, after delay: Duration, _ turn: borrowing Turn, _ effects: inout [DispatchEffect]
    ) {
        let due = turn.wallClock.seconds + delay / .seconds(1)
        if job.expiration > 0 && due > Double(job.expiration) { return expire(job, wasSent: true, turn, &effects) }
        counters.retried += 1
        let attempts = job.job.attempts + 1
        let end = FinalOutcome(outcome)
        if outcome.isInDoubt { effects.append(.countMaybeDuplicate(list: job.list)) }
        let line = LogEntry.retrying(
            identifier: job.identifier, reason: outcome.logText, count: attempts, push: tags(job, end, turn))
        effects.append(.log(line))
        // This send counts as an attempt: only those before it are uncounted.
        let marked = job.job.markedForRetry(
            attempts: attempts, deadline: job.deadlineToKeep, doubtful: job.doubtful, apnsID: end.apnsID)
        let effect = Settlement.Effect.delay(job: marked, .after(delay), isRetry: true)
        settle(job, Settlement(id: job.claim, effect: effect), turn, &effects)
    }

    private mutating func expire(
        _ job: HeldJob, wasSent: Bool, _ turn: borrowing Turn, _ effects: inout [DispatchEffect]
    ) {
        counters.expired += 1
        deadLetter(job, FinalOutcome(reason: "Expired", wasSent: wasSent, isExpired: true), turn, &effects)
    }

    /// - Parameter verdict: makes a feedback record.
    private func deadLetter(
        _ job: HeldJob, _ end: FinalOutcome, feedback verdict: TokenVerdict? = nil, _ turn: borrowing Turn,
        _ effects: inout [DispatchEffect]
    ) {
        let line = LogEntry.final(
            identifier: job.identifier, reason: end.logText, job: Job.onOneLine(logged(job, turn)),
            push: tags(job, end, turn))
        effects.append(.log(line))
        let letter = DeadLetter(
            reason: end.reason, status: end.status, apnsID: end.apnsID ?? job.job.apnsID, identifier: job.job.identifierJSON,
            token: job.tokenOfRecords, trace: job.job.trace, campaign: job.job.campaign, attempts: end.sends(of: job),
            at: turn.wallClock.unixSeconds, worker: workers[job.list],
            job: job.job.hasReplaces ? marked(job, job.job.element) : job.job.element)
        let feedback: [UInt8]? = if let verdict { FeedbackRecord(job, end, verdict, turn).record() } else { nil }
        let settlement = Settlement(
            id: job.claim, effect: letter.effect(of: job.claim, isExpired: end.isExpired), feedback: feedback,
            result: result(job, end, turn))
        settle(job, settlement, reason: end.reason, turn, &effects)
    }

    private func result(_ job: HeldJob, _ end: FinalOutcome, _ turn: borrowing Turn) -> Arguments? {
        turn.plan.settling.recordsResults ? ResultEntry(job, end, worker: workers[job.list], turn).fields() : nil
    }

    private func tags(_ job: HeldJob, _ end: FinalOutcome, _ turn: borrowing Turn) -> LoggedPush? {
        if !turn.plan.settling.tagsLines { return nil }
        return LoggedPush(
            app: turn.plan.apps[job.app].name ?? "", apnsID: end.apnsID ?? job.job.apnsID, attempt: job.sends,
            status: end.status, trace: job.job.trace, uniqueID: end.uniqueID, campaign: job.job.campaign)
    }

    private func logged(_ job: HeldJob, _ turn: borrowing Turn) -> [UInt8] {
        let bytes = job.isFromSlot || job.job.rank != nil ? Job.asReceived(job.job.element) : job.job.element
        return Redaction(isOn: turn.plan.settling.redacts).job(bytes)
    }

    /// - Parameters:
    ///   - settlement: what the end of the job decides. The rest is added.
    ///   - reason: of a dead letter.
    private func settle(
        _ job: HeldJob, _ settlement: consuming Settlement, reason: String? = nil, _ turn: borrowing Turn,
        _ effects: inout [DispatchEffect]
    ) {
        settlement.resends = job.resends
        settlement.campaign = job.job.outcome(of: settlement.effect, reason: reason)
        // A suspect has counted as a failure with its response.
        if job.suspectResponse != nil { settlement.campaign?.isFailure = false }
        if job.isFromSlot {
            returnToSlot(job, &settlement, turn)
        } else if case .deadLetter = settlement.effect, job.job.hasReplaces {
            // It may be the flight of its scope, which a dead worker has left behind.
            settlement.scope = scope(of: job, turn)
        }
        effects.append(.settle(settlement, list: job.list))
    }

    // MARK: Slots

    /// A job from a slot ends the flight of its scope, or returns to its slot.
    private func returnToSlot(_ job: HeldJob, _ settlement: inout Settlement, _ turn: borrowing Turn) {
        settlement.aside = nil
        switch settlement.effect {
        case .slot: break
        case .ack, .deadLetter, .split: settlement.scope = scope(of: job, turn)
        case .delay(let bytes, let due, let isRetry):
            var entry = slotEntry(job, bytes, turn)
            (entry.due, entry.count) = (due, isRetry ? .retried : .postponed)
            settlement.effect = .slot(entry)
        case .release: settlement.effect = .slot(slotEntry(job, job.job.bytes, turn))
        case .replace(let bytes, _): settlement.effect = .slot(slotEntry(job, bytes, turn))
        }
    }

    private func scope(of job: HeldJob, _ turn: borrowing Turn) -> Scope {
        job.job.scope(app: turn.plan.apps[job.app].name, rank: job.rank)
    }

    /// It counts as released, unless the caller changes that.
    private func slotEntry(_ job: HeldJob, _ bytes: [UInt8], _ turn: borrowing Turn) -> SlotEntry {
        let superseded = result(job, FinalOutcome(reason: "Superseded", wasSent: false), turn)
        return SlotEntry(scope(of: job, turn), job: marked(job, bytes), superseded: superseded ?? [])
    }

    /// Puts a claimed job into the slot of its scope. An older one that waits there ends.
    ///
    /// - Parameter source: the scope from whose slot it comes, if that is another one.
    mutating func keep(
        _ job: HeldJob, due: Settlement.Due? = nil, from source: Scope? = nil, _ turn: borrowing Turn,
        _ effects: inout [DispatchEffect]
    ) {
        counters.released += 1
        var entry = slotEntry(job, job.job.bytes, turn)
        entry.due = due
        settle(job, Settlement(id: job.claim, effect: .slot(entry), scope: source), turn, &effects)
    }

    // MARK: Claims that never became held jobs

    /// - Parameter effect: a return to the list, as a whole or split.
    mutating func giveBack(
        _ claim: ClaimedJob, _ effect: Settlement.Effect, aside: String? = nil, list: Int, _ effects: inout [DispatchEffect]
    ) {
        counters.released += 1
        effects.append(.settle(Settlement(id: claim.id, effect: effect, aside: aside), list: list))
    }

    mutating func postpone(_ claim: ClaimedJob, _ due: Settlement.Due, list: Int, _ effects: inout [DispatchEffect]) {
        counters.postponed += 1
        let effect = Settlement.Effect.delay(job: claim.bytes, due, isRetry: false)
        effects.append(.settle(Settlement(id: claim.id, effect: effect), list: list))
    }

    /// Dead-letters the bytes exactly as claimed. Of a large job, only the beginning is here.
    mutating func reject(
        _ claim: ClaimedJob, _ fault: ClaimFault, list: Int, _ turn: borrowing Turn, _ effects: inout [DispatchEffect]
    ) {
        counters.dead += 1
        let job = claim.fullSize == nil ? JobReader.identity(of: claim.bytes) : JobReader.Identity()
        let reason: String
        let most: Int
        var (campaign, scope): (String?, Scope?)
        switch fault {
        case .bad(let error, let ofCampaign, let ofScope):
            (campaign, scope) = (ofCampaign, ofScope)
            effects.append(.log(.badJob(claim.bytes, error, redacts: turn.plan.settling.redacts)))
            (reason, most) = (claim.fullSize == nil ? error.reason : "JobTooLarge", DeadLetter.mostJobBytes)
        case .crashSuspect:
            effects.append(.log(.crashSuspect(identifier: job.identifier)))
            (reason, most) = ("crash_suspect", DeadLetter.mostSuspectBytes)
        }
        let time = turn.wallClock.unixSeconds
        let letter = DeadLetter(
            reason: reason, identifier: job.identifier, token: job.token, trace: job.trace, campaign: job.campaign, attempts: 0,
            at: time, worker: workers[list], job: claim.bytes, fullSize: claim.fullSize)
        let entry = ResultEntry(
            identifier: job.identifier, token: job.token, reason: reason, attempts: 0, at: time, trace: job.trace,
            worker: workers[list], claimedAt: turn.milliseconds(turn.now), campaign: job.campaign)
        let settlement = Settlement(
            id: claim.id, effect: letter.effect(of: claim.id, isExpired: false, most: most), scope: scope,
            result: turn.plan.settling.recordsResults ? entry.fields() : nil,
            campaign: campaign.map { CampaignOutcome(campaign: $0, kind: .dead(reason: reason), isToken: true) })
        effects.append(.settle(settlement, list: list))
    }
}

/// Selects an even share of the delivered pushes for the log: with a share of 0.01, every hundredth.
struct SuccessSampler {
    private static let whole: UInt64 = 1_000_000_000

    /// The billionth parts of a line that have accumulated. Below `whole`.
    private var sum: UInt64 = 0

    /// Returns whether the next push is logged.
    ///
    /// - Parameter share: from 0 to 1.
    mutating func takesNext(share: Double) -> Bool {
        sum += UInt64((min(1, max(0, share)) * Double(Self.whole)).rounded())
        if sum < Self.whole { return false }
        sum -= Self.whole
        return true
    }
}
