import Platform
import PushPool
import RedisQueue

/// One app: its circuit breaker, the jobs that it holds, the state of its pool, and the meaning of an outcome.
///
/// A job is held from its claim on: *outgoing* until the end of the turn, then *in the pool*, where it waits for a session and
/// then occupies a stream until its outcome arrives. The outcome settles it, or it goes out again. A job that no session has
/// taken goes back to its list as soon as the app may not or cannot send.
///
///     job          fact                                             next
///     outgoing     end of the turn                                  in the pool
///     outgoing     the lease of its list is in doubt                suspended, until Redis responds
///     in the pool  the lease of its list is in doubt                suspended, until Redis responds
///     in the pool  app held, unreachable or limited; stop signal    released
///     in the pool  200                                              acknowledged
///     in the pool  another outcome                                  as `RetryPolicy` decides
///     in the pool  suspect response                                 suspect
///     in the pool  5xx or timeout without resends, APNs is failing  released
///     suspect      acceptance of the app, or 60 s                   dead letter
///     suspect      app held, reload, stop signal                    released
///     suspect      known app held after 2,000 of them               suspect
///     any          another worker took it over                      forgotten, after its outcome if it is on a stream
///
/// `JobTableTests` runs each row. `RetryPolicy` decides what an outcome means for its job, and `CircuitBreaker` whether the app
/// may send.
///
/// It cannot be copied: a copy for each question would cost 700 instructions.
struct AppMachine: ~Copyable {
    /// The next action of `DispatchMachine`; the order counts.
    enum Effect {
        /// The job is no longer held.
        case end(HeldJob, Settler.End)
        /// Another session should send the retry of this token; if it pauses, newer jobs of the token wait.
        case remember(token: String, failedOn: SessionID, delay: Duration, pauses: Bool)
        /// APNs accepts pushes again: the other apps with this credential may have no job with which to probe.
        case throttleEnded
        case perform(DispatchEffect)
    }

    /// Jobs that it takes while its first session opens.
    static let mostWhileOpening = CircuitBreaker.caution

    let index: Int
    private let listCount: Int
    private var effects: [Effect] = []
    private var held: HeldJobs
    private var outbox: Outbox
    private var pool = PoolHealth(isOpening: false, now: nil)
    private var breaker = CircuitBreaker()
    private var culprits = HoldCulprits()
    private var acceptances = Acceptances()
    /// Whether the log names its first acceptance.
    private var hasLoggedAcceptance = false
    /// The outcomes of its attempts.
    private var responses = ResponseFigures()
    /// Uncounted resends since the start of this process.
    private(set) var resent = 0
    private var suspects = Suspects()
    private var sessions: Set<SessionID> = []
    /// The lists in which operators have paused it.
    private var pausedLists: Set<Int> = []
    /// The campaigns that operators have paused, by list.
    private var pausedCampaigns: [Int: Set<String>] = [:]
    /// Whether it has no pool: it has no jobs, or may not send.
    private(set) var isAsleep = true
    /// The last time at which it had jobs.
    private var lastJob: Instant?
    private let byAddress = ByAddress()

    init(index: Int, listCount: Int) {
        (self.index, self.listCount) = (index, listCount)
        held = HeldJobs(app: index)
        outbox = Outbox(app: index)
    }

    var hasEffects: Bool { !effects.isEmpty }

    /// Returns its effects since the last call, in their order.
    mutating func takeEffects() -> [Effect] {
        defer { effects = [] }
        return effects
    }

    private mutating func emit(_ effect: DispatchEffect) { effects.append(.perform(effect)) }

    // MARK: Time

    /// Does what is due, after the facts of the turn.
    mutating func tick(_ turn: borrowing Turn) {
        if held.count > 0, let due = pool.nextTakeBack, due <= turn.now {
            pool.tookBack(now: turn.now)
            takeBack()
        }
        perform(breaker.tick(now: turn.now, isAwaiting: placed > 0), turn)
        settle(suspects.takeOld(now: turn.now))
        // The last probes have ended without a response about the credential: a broken session, an expiry, another worker.
        if breaker.isProbing && held.count == suspects.count { perform(breaker.probesWereLost(now: turn.now), turn) }
    }

    /// - Parameter idleTimeout: 0 for none.
    func deadline(now: Instant, idleTimeout: Duration) -> Instant? {
        var next = Earliest(held.count > 0 ? pool.nextTakeBack : nil)
        if idleTimeout > .zero, held.count == 0, let lastJob { next.consider(lastJob + idleTimeout) }
        if let probe = breaker.nextProbe, probe > now { next.consider(probe) }
        next.consider(breaker.deadline)
        next.consider(suspects.deadline)
        return next.instant
    }

    // MARK: Sessions on demand

    /// It has a pool from now on.
    ///
    /// - Parameter isForJobs: whether jobs wait for it.
    mutating func wake(isForJobs: Bool, now: Instant) {
        (isAsleep, lastJob) = (false, now)
        pool = PoolHealth(isOpening: isForJobs, now: now)
    }

    /// Its pool takes no more jobs, and ends once the requests on streams have ended.
    mutating func poolEnds(now: Instant) { pool = PoolHealth(isOpening: false, now: now) }

    /// It has no jobs, and its pool ends.
    mutating func fallAsleep(now: Instant) {
        poolEnds(now: now)
        (isAsleep, lastJob) = (true, nil)
    }

    /// Whether it has had no jobs for this time.
    ///
    /// - Parameter hasJobs: whether a list has jobs for it alone.
    mutating func isIdle(for timeout: Duration, hasJobs: Bool, now: Instant) -> Bool {
        if held.count > 0 || hasJobs || lastJob == nil { lastJob = now }
        return lastJob.map { now - $0 >= timeout } ?? false
    }

    // MARK: Claims

    /// Returns the number of further jobs that may be claimed.
    func places(now: Instant) -> Int {
        if pausedLists.count == listCount { return 0 }
        let allowed = breaker.allowance(now: now, suspects: suspects.count) - held.count
        return max(0, min(allowed, pool.places(besides: placed)))
    }

    /// Returns how many further jobs it takes if it takes one. Without a limit it takes any number: the others wait for its
    /// streams.
    func furtherPlaces(now: Instant) -> Int {
        if limit == nil && breaker.allowance(now: now, suspects: suspects.count) == .max { return .max }
        let further = limit.map { ClaimBudget.Rate(pushesPerSecond: $0).mostWaiting - waiting } ?? .max
        return max(1, min(places(now: now), further))
    }

    /// The pool's own limit in pushes per second.
    var limit: Double? { pool.reading.limit }

    /// Whether a claimed job of the list may go out.
    func takesOne(from list: Int, now: Instant) -> Bool {
        pool.takesAny(besides: held.count)
            && (breaker.isAtRest || held.count < breaker.allowance(now: now, suspects: suspects.count))
            && pool.takesOne(besides: placed, waiting: waiting) && !isPaused(in: list)
    }

    /// Whether an app that shares its lists may hold one more job that was claimed for any app.
    var hasRoom: Bool { pool.hasRoom(besides: placed) }

    /// The job is held from now on, and outgoing.
    mutating func take(_ job: HeldJob, _ turn: borrowing Turn) {
        let id = held.insert(job)
        breaker.sent()
        outbox.send(id, job, turn)
    }

    // MARK: Counts

    /// Jobs of this app in flight, suspects included.
    var count: Int { held.count }
    /// Jobs that no session has taken.
    var waiting: Int { pool.reading.waiting + outbox.outgoingCount }
    /// Jobs that occupy places.
    private var placed: Int { held.count - suspects.count - outbox.suspendedCount }
    /// Jobs that the pool has, waiting there or on streams.
    private var handedOver: Int { max(0, placed - outbox.outgoingCount) }
    func isPaused(in list: Int) -> Bool { !pausedLists.isEmpty && pausedLists.contains(list) }

    func holds(_ id: JobID) -> Bool { held[id] != nil }
    /// Whether the push has no response.
    func isPending(_ id: JobID) -> Bool { held[id].map { $0.suspectResponse == nil } ?? false }
    /// The jobs of these tokens whose pushes have no response.
    func pending(_ tokens: Set<String>) -> [JobID] { held.ids { $0.suspectResponse == nil && tokens.contains($0.token) } }
    var isHeld: Bool { breaker.isHeld }
    /// Whether an acceptance changes nothing.
    var isAtRest: Bool { breaker.isAtRest && acceptances.isProven }

    func snapshot(_ turn: borrowing Turn) -> ProcessSnapshot.App {
        ProcessSnapshot.App(
            name: turn.plan.apps[index].name, sessions: sessions.count, capacity: pool.reading.capacity, held: held.count,
            streams: handedOver, hold: breaker.holdReason, isPaused: !pausedLists.isEmpty,
            bottleneck: breaker.holdReason == nil && pausedLists.isEmpty ? .noJobs : .hold, responses: responses,
            certificateExpires: turn.plan.apps[index].certificateExpires, fingerprint: turn.plan.apps[index].fingerprint,
            acceptedAt: acceptances.ofSettings,
            isIdle: (isAsleep || pool.isOpening) && turn.plan.apps[index].maySend,
            isRemoved: turn.plan.apps[index].isRemoved)
    }

    // MARK: Notifications

    /// Moves the outgoing notifications to `batch`, which is empty.
    mutating func takeOutgoing(into batch: inout [Notification]) { outbox.takeOutgoing(into: &batch) }

    /// Outgoing notifications of lists for which `isInDoubt` holds wait here.
    mutating func suspend(where isInDoubt: (Int) -> Bool) {
        let held = held
        outbox.suspend { id in held[id].map { isInDoubt($0.list) } ?? false }
    }

    /// The lease of the list is certain again.
    mutating func resume(list: Int) {
        let held = held
        outbox.resume { held[$0]?.list == list }
    }

    /// The pool has given back notifications that no session had taken.
    mutating func withdrew(_ ids: [JobID], _ withdrawal: DispatchEffect.Withdrawal, _ turn: borrowing Turn) {
        for id in ids {
            switch withdrawal {
            case .release, .giveBack: end(id, .release())
            case .keep: if let job = held[id] { outbox.suspend(id, job, turn) }
            case .forget: remove(id)
            }
        }
    }

    /// Sends the job again at once, on another session if there is one. At shutdown and while the app is held or paused it goes
    /// back.
    private mutating func resend(_ id: JobID, avoiding session: SessionID, _ turn: borrowing Turn) {
        guard let job = held[id] else { return }
        if turn.isLeaving || breaker.isHeld || isPaused(in: job.list) || isPaused(job) { return end(id, .release()) }
        job.avoiding = session
        job.resends += 1
        resent += 1
        outbox.send(id, job, turn)
    }

    /// Returns to its list what no session has taken.
    private mutating func takeBack() {
        for id in outbox.remove() { end(id, .release()) }
        emit(.withdraw(.release, app: index))
    }

    // MARK: Ends

    private mutating func end(_ id: JobID, _ end: Settler.End) {
        if let job = remove(id) { effects.append(.end(job, end)) }
    }

    @discardableResult
    private mutating func remove(_ id: JobID) -> HeldJob? {
        guard let job = held.remove(id) else { return nil }
        if job.suspectResponse != nil { suspects.wasRemoved() }
        return job
    }

    /// APNs may have accepted the last attempt of the job. This counts at once: the process may end before it settles the job.
    private mutating func doubt(_ job: HeldJob) {
        job.maybeDuplicates += 1
        emit(.countMaybeDuplicate(list: job.list))
    }

    // MARK: Acceptances

    /// APNs accepted the job, which is no longer held.
    ///
    /// - Parameters:
    ///   - isCurrent: see `DispatchMachine`, as everywhere here.
    ///   - times: for results and metrics; `nil` without them.
    mutating func delivered(_ id: JobID, isCurrent: Bool, times: AttemptTimes?, _ turn: borrowing Turn) -> HeldJob? {
        guard let job = remove(id) else { return nil }
        responses.countAcceptance()
        if let times {
            job.times = times
            responses.record(claimed: job.claimed, times)
        }
        if !isAtRest { accepted(job, isCurrent: isCurrent, turn) }
        if suspects.count > 0, isCurrent, job.job.isMember, !breaker.isHeld {
            suspects.accepted(campaign: job.job.campaign)
            settle(suspects.takeProven(of: held))
        }
        if isCurrent, acceptances.isDue(now: turn.now) { remember(job, turn) }
        return job
    }

    /// A job was accepted while the breaker was not at rest. An acceptance on a session with a replaced credential proves
    /// nothing about the present one: it ends no hold, except that of a failing APNs, and settles no suspect. It also ends the
    /// caution after a reload, so that a reload under load does not stop the claims.
    private mutating func accepted(_ job: HeldJob, isCurrent: Bool, _ turn: borrowing Turn) {
        if isCurrent { acceptances.isProven = true }
        suspects.accepted(campaign: job.job.campaign)
        if !hasLoggedAcceptance {
            hasLoggedAcceptance = true
            if turn.plan.settling.loggedSuccesses < 1 {
                emit(.log(.firstAccepted(app: turn.plan.apps[index].label, job.job)))
            }
        }
        let wasHeld = breaker.isHeld
        if !isCurrent && (wasHeld || suspects.count > 0) { return perform(breaker.failuresEnded(), turn) }
        let changes = breaker.accepted()
        if wasHeld && changes.contains(.resume) { culprits.holdEnded(by: job.fingerprint) }
        perform(changes, turn)
    }

    /// A session with the present credential had an acceptance. Only the first one of a second counts.
    private mutating func remember(_ job: HeldJob, _ turn: borrowing Turn) {
        let topic = turn.plan.apps[index].topic
        acceptances.accepted(hasTopicOfApp: job.job.usesTopicOfApp || job.job.topic(ofApp: topic) == topic, now: turn.now)
    }

    /// Redis remembers an acceptance, which this process or another one has had.
    mutating func remembered(age: Duration, _ turn: borrowing Turn) {
        if acceptances.remembered(age: age, now: turn.now) { perform(breaker.wasAcceptedElsewhere(), turn) }
    }

    // MARK: Other outcomes

    /// The request has left with this deadline.
    func began(_ id: JobID, expiration: Int64) { held[id]?.expiration = expiration }

    /// An attempt ended without an acceptance. Returns whether its job needs a decision.
    mutating func attemptEnded(_ attempt: Delivery, _ turn: borrowing Turn) -> Bool {
        let id = JobID(attempt.id)
        guard let job = held[id] else { return false }
        if job.isDisowned {
            // Another worker holds the job now, and sends, counts and logs it. Its last attempt here still counts.
            remove(id)
            if attempt.outcome.isInDoubt { emit(.countMaybeDuplicate(list: job.list)) }
            return false
        }
        let isResponse = responses.count(attempt.outcome)
        if let times = attempt.times {
            job.times = times
            if isResponse { responses.record(claimed: job.claimed, times) }
        }
        if RetryPolicy.isFailure(attempt.outcome) {
            breaker.failed(now: turn.now)
        } else if isResponse {
            perform(breaker.failuresEnded(), turn)
            // A job that waits in a slot after a 429 costs nothing meanwhile.
            if RetryPolicy.pace(attempt.outcome) == nil {
                breaker.throttlesWeighLess()
            } else if !job.isPaced {
                breaker.tokenThrottled(now: turn.now)
            }
        }
        return true
    }

    /// APNs throttles every app with this credential and host (docs/answers.md).
    ///
    /// - Parameters:
    ///   - pause: as APNs specified it, if it did.
    ///   - isOwnResponse: false if another app with the same credential got the response.
    mutating func throttled(_ reason: HoldReason, for pause: Duration?, isOwnResponse: Bool, _ turn: borrowing Turn) {
        perform(breaker.throttled(reason, for: pause, now: turn.now, isOwnResponse: isOwnResponse), turn)
    }

    mutating func throttleEnded(_ turn: borrowing Turn) {
        perform(breaker.throttleEnded(), turn)
    }

    /// Settles, resends or suspects the job of an attempt that ended without an acceptance, and tells the breaker.
    mutating func decide(_ attempt: Delivery, isCurrent: Bool, random: Double, _ turn: borrowing Turn) {
        let id = JobID(attempt.id)
        guard let job = held[id] else { return }
        let standing = RetryPolicy.Standing(
            attempts: job.job.attempts, resends: job.resends, doubtful: job.doubtful,
            isTopicFromSettings: job.job.usesTopicOfApp, namesChannel: job.job.namesChannel)
        if job.isPaced, let pause = RetryPolicy.pace(attempt.outcome) {
            probeEnded(provesCredential: isCurrent, turn)
            return end(id, .pace(attempt.outcome, pause))
        }
        switch turn.plan.policy.decide(attempt.outcome, standing, random: random) {
        case .resend(let mayDuplicate):
            if mayDuplicate { doubt(job) }
            // A newer state may wait.
            if mayDuplicate && job.isFromSlot { return end(id, .release()) }
            resend(id, avoiding: attempt.session, turn)
        // At shutdown it goes back at once: the next process has other sessions.
        case .postpone(let pause): end(id, turn.isLeaving ? .release() : .postpone(pause))
        case .expire:
            probeEnded(provesCredential: false, turn)
            end(id, .expire)
        case .retryLater where breaker.holdReason == .failing: returned(id, job, attempt.outcome, turn)
        case .retryLater(let delay, let pausesToken):
            // If the device token alone has too many requests, APNs has accepted the credential.
            probeEnded(provesCredential: isCurrent && pausesToken, turn)
            effects.append(.remember(token: job.token, failedOn: attempt.session, delay: delay, pauses: pausesToken))
            end(id, .retry(attempt.outcome, after: delay))
        case .deadLetter where breaker.isFailing && hasUsedResends(attempt.outcome):
            returned(id, job, attempt.outcome, turn)
        case .deadLetter(let verdict):
            probeEnded(provesCredential: isCurrent && RetryPolicy.provesCredential(attempt.outcome), turn)
            end(id, .deadLetter(attempt.outcome, verdict))
        case .suspect: suspected(attempt, job, isCurrent: isCurrent, turn)
        case .hold(let reason):
            if !isCurrent && reason.isOfSessions { emit(.retire(attempt.session, app: index)) }
            faulted(attempt, job, reason, isCurrent: isCurrent, turn)
        case .renewToken where isCurrent && !turn.isLeaving:
            emit(.renewToken(for: id, refusedOn: attempt.session, app: index))
        case .renewToken:
            if !isCurrent { emit(.retire(attempt.session, app: index)) }
            resend(id, avoiding: attempt.session, turn)
        }
    }

    /// Whether this outcome ends a job only because the job has no resends left.
    private func hasUsedResends(_ outcome: Outcome) -> Bool {
        if case .maybeProcessed = outcome { true } else { RetryPolicy.isFailure(outcome) }
    }

    /// APNs is failing, and no job is at fault: the job returns to its list with the counts that it had. A probe goes to the
    /// tail, because it may fail by itself, and so does a job before the hold, so that others are tried before it.
    private mutating func returned(_ id: JobID, _ job: HeldJob, _ outcome: Outcome, _ turn: borrowing Turn) {
        if outcome.isInDoubt { emit(.countMaybeDuplicate(list: job.list)) }
        end(id, .release(toTail: breaker.isProbing || !breaker.isHeld, keepsDeadline: true))
        probeEnded(provesCredential: false, turn)
    }

    /// The job may have been a probe, and has another outcome than an acceptance or a hold.
    private mutating func probeEnded(provesCredential: Bool, _ turn: borrowing Turn) {
        let changes = provesCredential ? breaker.answered() : breaker.probeWasInconclusive(now: turn.now)
        perform(changes, turn)
    }

    /// The outcome holds the app, unless the job alone is the cause.
    private mutating func faulted(
        _ attempt: Delivery, _ job: HeldJob, _ reason: HoldReason, isCurrent: Bool, _ turn: borrowing Turn
    ) {
        let id = JobID(attempt.id)
        if isCurrent, reason == .tokenUpdates { emit(.keepToken(app: index)) }
        if case .maybeProcessed = attempt.outcome { doubt(job) }
        if isCurrent, RetryPolicy.isResponseAboutJob(attempt.outcome), reason.mayBeOfOneJob, culprits.rejected(job.fingerprint) {
            probeEnded(provesCredential: false, turn)
            return end(id, .deadLetter(attempt.outcome, nil))
        }
        // If APNs rejects this job alone, the next probe is another one.
        end(id, .release(toTail: breaker.isProbing || breaker.isClosed))
        if isCurrent { perform(breaker.faulted(reason, now: turn.now), turn) }
    }

    mutating func renewedToken(
        _ renewal: SessionPool.TokenRenewal, for id: JobID, refusedOn session: SessionID, _ turn: borrowing Turn
    ) {
        guard held[id] != nil else { return }
        switch renewal {
        case .renewed, .alreadyRenewed: resend(id, avoiding: session, turn)
        case .tooYoung, .noSigningKey:
            end(id, .release())
            perform(breaker.faulted(.credential("ExpiredProviderToken"), now: turn.now), turn)
        }
    }

    // MARK: Suspects

    /// The job waits for an acceptance of the app. The response of a session with a replaced credential is no reason for a dead
    /// letter while a current session can be asked.
    private mutating func suspected(_ attempt: Delivery, _ job: HeldJob, isCurrent: Bool, _ turn: borrowing Turn) {
        guard case .rejected(let rejection) = attempt.outcome else { return }
        let id = JobID(attempt.id)
        if !isCurrent && breaker.isClosed && job.resends < RetryPolicy.uncountedResends {
            return resend(id, avoiding: attempt.session, turn)
        }
        let (isProbe, wasClosed) = (breaker.isHeld, breaker.isClosed)
        let changes = isCurrent ? breaker.suspected(now: turn.now, isKnown: acceptances.isKnown(now: turn.now)) : []
        if isProbe || turn.isLeaving || job.isAlone {
            // While a job is alone, nothing else is claimed, and no acceptance can follow.
            end(id, .release(toTail: isProbe || job.isAlone))
        } else {
            job.suspectResponse = HeldJob.SuspectResponse(rejection: rejection, isStale: !isCurrent)
            if job.job.isMember, let campaign = job.job.campaign {
                emit(.count(CampaignOutcome(campaign: campaign, kind: .suspected, isToken: false), list: job.list))
            }
            suspects.add(id, now: turn.now)
            if suspects.count == 1 && !wasClosed {
                emit(.log(.firstSuspect(app: turn.plan.apps[index].label, attempt.outcome)))
            }
        }
        perform(changes, turn)
    }

    private mutating func releaseSuspects(toTail: Bool = true) {
        for id in suspects.takeAll() { end(id, .release(toTail: toTail)) }
    }

    /// The environment is right, so the tokens are wrong.
    private mutating func settle(_ suspects: [JobID]) {
        for id in suspects {
            guard let response = held[id]?.suspectResponse else { continue }
            end(id, response.isStale ? .release(toTail: true) : .deadLetter(.rejected(response.rejection), .suspect))
        }
    }

    // MARK: The circuit breaker

    /// - Parameter isReload: whether a reload is the cause: APNs has not accepted a push yet.
    private mutating func perform(_ changes: [CircuitBreaker.Effect], isReload: Bool = false, _ turn: borrowing Turn) {
        for change in changes {
            switch change {
            case .hold(let reason):
                let app = turn.plan.apps[index]
                emit(.log(.held(app: app.label, reason, place: app.place(of: reason))))
                takeBack()
                // The suspects of a known app are settled in time: there are at most 2,000, and none is added during the hold.
                if reason != .suspectTokens || !acceptances.isKnown(now: turn.now) { releaseSuspects() }
            case .reconnect: emit(.reconnect(app: index))
            case .resume:
                culprits.forgetRejections()
                if acceptances.isKnown(now: turn.now) { _ = breaker.wasAcceptedElsewhere() }
                emit(.log(.resumed(app: turn.plan.apps[index].label, isReload: isReload)))
                effects.append(.throttleEnded)
            case .settleSuspects: settle(suspects.takeProven(of: held))
            }
        }
    }

    /// Holds the app if its credential cannot be used, or if the settings no longer have it.
    mutating func holdIfFaulty(_ turn: borrowing Turn) {
        guard let reason = turn.plan.apps[index].hold else { return }
        perform(breaker.faulted(reason, now: turn.now), turn)
    }

    // MARK: The pool

    /// - Parameter sharesLists: whether its lists have other apps.
    mutating func observed(_ reading: PoolHealth.Reading, sharesLists: Bool, now: Instant) {
        pool.observed(reading, placed: placed, now: now)
        if sharesLists { pool.watch(responses: responses.responses, handedOver: handedOver, now: now) }
    }

    mutating func happened(_ event: PoolEvent, isCurrent: Bool, _ turn: borrowing Turn) {
        if let entry = LogEntry.pool(event, app: turn.plan.apps[index].label) { emit(.log(entry)) }
        switch event {
        case .opened(let session, let address, _):
            sessions.insert(session)
            if let outage = pool.sessionOpened() {
                emit(.log(.reachable(app: turn.plan.apps[index].label, address, after: outage, now: turn.now)))
            }
        case .closed(let session, _, let error):
            sessions.remove(session)
            sessionFailed(error, isCurrent: isCurrent, turn)
        case .dialFailed(_, let address, let error, let wait):
            if let outage = pool.dialFailed(error.logText, now: turn.now) {
                let app = turn.plan.apps[index].label
                emit(.log(.noSession(app: app, address, error, retryIn: wait, in: outage, now: turn.now)))
            }
            sessionFailed(error, isCurrent: isCurrent, turn)
        // The list counts what the pool cannot send soon.
        case .slowed: takeBack()
        case .credentialRefused: acceptances.usesPreviousCredential = true
        case .capacityChanged, .resized, .slowdownEnded, .tokens, .limited: break
        }
    }

    private mutating func sessionFailed(_ error: SessionError, isCurrent: Bool, _ turn: borrowing Turn) {
        guard isCurrent, let reason = HoldReason(error) else { return }
        perform(breaker.faulted(reason, now: turn.now), turn)
    }

    // MARK: Lists

    mutating func leaseInDoubt(list: Int) {
        let ids = Set(held.ids { $0.list == list })
        emit(.withdraw(.keep(ids), app: index))
    }

    /// Another worker has these jobs now. Those on streams are forgotten when their outcomes arrive, which settle nothing.
    mutating func disowned(_ claims: Set<ClaimID>, list: Int) {
        let ids = Set(held.ids { $0.list == list && claims.contains($0.claim) })
        for id in outbox.remove(ids) { remove(id) }
        emit(.withdraw(.forget(ids), app: index))
        for id in ids {
            if held[id]?.suspectResponse != nil { remove(id) }
            held[id]?.isDisowned = true
        }
    }

    /// Operators have paused the app in the list, or not. Jobs that no session has taken return to the list.
    mutating func setPaused(_ isPaused: Bool, list: Int) {
        guard isPaused else {
            pausedLists.remove(list)
            return
        }
        pausedLists.insert(list)
        giveBack(Set(held.ids { $0.list == list }))
    }

    /// These campaigns are paused in the list, and no others.
    mutating func setPaused(campaigns: Set<String>, list: Int) {
        if campaigns.isEmpty && pausedCampaigns.isEmpty { return }
        let new = campaigns.subtracting(pausedCampaigns[list] ?? [])
        pausedCampaigns[list] = campaigns.isEmpty ? nil : campaigns
        if !new.isEmpty { giveBack(Set(held.ids { $0.list == list && $0.job.campaign.map(new.contains) ?? false })) }
    }

    private func isPaused(_ job: HeldJob) -> Bool {
        guard !pausedCampaigns.isEmpty, let campaign = job.job.campaign else { return false }
        return pausedCampaigns[job.list]?.contains(campaign) ?? false
    }

    /// Returns these jobs to their list, except those on streams.
    private mutating func giveBack(_ ids: Set<JobID>) {
        if ids.isEmpty { return }
        for id in outbox.remove(ids) { end(id, .release()) }
        for id in ids where held[id]?.suspectResponse != nil { end(id, .release()) }
        emit(.withdraw(.giveBack(ids), app: index))
    }

    // MARK: Signals

    /// The plan of the turn is new, and the pool has it already.
    ///
    /// - Parameters:
    ///   - isReplaced: whether the sessions of the app are replaced. Otherwise it goes on as before.
    ///   - isOther: whether the credential, the server or the topic has changed.
    mutating func adopted(isReplaced: Bool, isOther: Bool, _ turn: borrowing Turn) {
        if isOther { acceptances = Acceptances() }
        if isReplaced { pool.settingsChanged() }
        guard isReplaced && turn.plan.apps[index].maySend else { return }
        // The environment may have changed: responses of the previous one say nothing about the tokens.
        releaseSuspects()
        let changes = breaker.reloaded(isKnown: acceptances.isKnown(now: turn.now), now: turn.now)
        // The sessions of a held app may still be refused.
        if !changes.isEmpty { emit(.reconnect(app: index)) }
        perform(changes, isReload: true, turn)
    }

    /// A stop signal has arrived: only what is on streams gets its outcome.
    mutating func drain() {
        takeBack()
        releaseSuspects(toTail: false)
    }

    /// The pool is closed and its last outcomes have arrived. The jobs that are left were sent by a session that does not report.
    mutating func releaseAll() {
        for id in held.ids(where: { _ in true }) {
            if let job = held[id] { doubt(job) }
            end(id, .release())
        }
    }
}
