import DequeModule
import PushPool
import RedisQueue
import SystemTime

/// Decides what the dispatcher does next: takes facts about lists, pools, signals and time, and returns effects. It knows no
/// socket and no clock.
///
/// A claimed job is read, routed to its app and checked. Then it is held: its notification goes to the app's pool at the end of
/// the turn, waits there, and occupies a stream until its outcome arrives. The outcome settles it, or it goes out again. A job
/// that no session has taken goes back to its list as soon as its app may not or cannot send.
///
///     job          fact                                             next
///     claimed      not readable, no app, no topic                   dead letter
///     claimed      several tokens                                   split: its parts are claimed in turn
///     claimed      `not_before` to come, or its token is paused     delayed
///     claimed      the app cannot send, or gaplessd stops           released
///     claimed      expired, or filtered                             dead letter
///     claimed      otherwise                                        outgoing
///     outgoing     end of the turn                                  in the pool
///     outgoing     the lease of its list is in doubt                suspended, until Redis responds
///     in the pool  the lease of its list is in doubt                suspended, until Redis responds
///     in the pool  app held, unreachable or limited; stop signal    released
///     in the pool  200                                              acknowledged
///     in the pool  another outcome                                  as `RetryPolicy` decides
///     in the pool  suspect response                                 suspect
///     suspect      acceptance of the app, or 60 s                   dead letter
///     suspect      app held, reload, stop signal                    released
///     any          another worker took it over                      forgotten, after its outcome if it is on a stream
///
/// A turn is: `turnBegan`, facts, `tick`, offers to the lists, their claims, `takeOutgoing`. `CircuitBreaker` decides whether
/// an app may send, `Shutdown` when to stop.
struct DispatchMachine: ~Copyable {
    private var plan: DispatchPlan
    private var apps: UniqueDeque<AppState>
    private var lists: [ListState]
    private var held = HeldJobs()
    private var settler: JobSettler
    /// Recent failures of device tokens.
    private var memory = TokenMemory()
    private var budget = ClaimBudget()
    private var shutdown = Shutdown()
    private var certificates: CertificateWatch
    private var places = FreePlaces()
    // The time of this turn.
    private var now: Instant
    private var wallClock: WallClock

    /// - Parameter workers: the name of this worker at each list.
    init(_ plan: DispatchPlan, workers: [String], now: Instant, wallClock: WallClock) {
        self.plan = plan
        self.now = now
        self.wallClock = wallClock
        apps = UniqueDeque()
        for _ in plan.apps { apps.append(AppState()) }
        lists = plan.lists.map { ListState(name: $0, appCount: plan.apps.count) }
        settler = JobSettler(plan.settling, workers: workers, now: now, wallClock: wallClock)
        certificates = plan.certificates
    }

    // MARK: Time

    mutating func turnBegan(now: Instant, wallClock: WallClock) {
        self.now = now
        self.wallClock = wallClock
        (settler.now, settler.wallClock) = (now, wallClock)
    }

    mutating func observed(_ reading: AppState.PoolReading, app: Int) { apps[app].observed(reading, now: now) }

    /// Does what is due, after the facts of the turn.
    mutating func tick(_ effects: inout [DispatchEffect]) {
        for app in apps.indices {
            if apps[app].isUnreachable(now: now) {
                apps[app].tookBack(now: now)
                takeBack(app: app, &effects)
            }
            perform(apps[app].breaker.tick(now: now), app: app, &effects)
            settle(apps[app].takeOldSuspects(now: now), &effects)
            if apps[app].hasLostProbe { perform(apps[app].breaker.probeWasInconclusive(now: now), app: app, &effects) }
        }
        for list in lists.indices { lists[list].tick(now: now) }
        for warning in certificates.look(now: now, wallClock: wallClock) { effects.append(.log(.certificate(warning))) }
        perform(shutdown.tick(now: now, held: held.count), &effects)
    }

    /// The earliest pending timer.
    var deadline: Instant? {
        var next = Earliest(budget.nextRefill)
        for list in lists.indices { next.consider(lists[list].pausedUntil) }
        for app in apps.indices { next.consider(apps[app].deadline(now: now)) }
        next.consider(certificates.deadline(now: now))
        next.consider(shutdown.deadline)
        return next.instant
    }

    // MARK: Claims

    /// Computes how many jobs could go out now, before `offer` divides them among the lists.
    ///
    /// - Parameter limit: of all apps together; `nil` without one.
    mutating func countPlaces(limit: ClaimBudget.Rate?) {
        budget.reset()
        places = FreePlaces()
        if !shutdown.isRunning { return }
        var waiting = 0
        for app in apps.indices {
            let free = budget.places(
                apps[app].places(now: now), under: apps[app].reading.limit.map(ClaimBudget.Rate.init),
                waiting: apps[app].waiting, now: now)
            places.add(free, room: apps[app].room)
            waiting += apps[app].waiting
        }
        places.limit { budget.places($0, under: limit, waiting: waiting, now: now) }
    }

    /// Returns how many jobs to claim from `list`. A list of lower priority gets places only while those before it are empty.
    ///
    /// - Parameter mayHaveJobs: whether the list lacks only places.
    mutating func offer(to list: Int, mayHaveJobs: Bool) -> Int {
        defer { if lists[list].mayClaim && mayHaveJobs { places.close() } }
        return places.offer(to: lists[list])
    }

    mutating func claimed(_ jobs: [ClaimedJob], list: Int, _ effects: inout [DispatchEffect]) {
        settler.countClaims(jobs.count)
        lists[list].claimBegan()
        var givenBack: [ClaimedJob] = []
        for job in jobs where !place(job, list: list, &effects) { givenBack.append(job) }
        if apps.count == 1 { return }
        lists[list].claimEnded(placed: jobs.count - givenBack.count, givenBack: givenBack, now: now)
    }

    mutating func claimedCrashSuspects(_ jobs: [ClaimedJob], list: Int, _ effects: inout [DispatchEffect]) {
        for job in jobs { settler.rejectCrashSuspect(job, list: list, &effects) }
    }

    /// Sends or settles a claimed job. Returns false if it was given back.
    private mutating func place(_ claim: ClaimedJob, list: Int, _ effects: inout [DispatchEffect]) -> Bool {
        guard shutdown.isRunning, !lists[list].isPaused else { return giveBack(claim, list: list, toTail: false, &effects) }
        if let size = claim.fullSize {
            settler.rejectLargeJob(claim, size: size, list: list, &effects)
            return true
        }
        do {
            return try place(try plan.reader.read(claim.bytes), of: claim, list: list, &effects)
        } catch {
            settler.rejectBadJob(claim, list: list, error, &effects)
            return true
        }
    }

    private mutating func place(
        _ job: consuming Job, of claim: ClaimedJob, list: Int, _ effects: inout [DispatchEffect]
    ) throws(JobError) -> Bool {
        if case .tokens = job.target { return split(job, of: claim, list: list, &effects) }
        if let due = job.notBefore, due > wallClock.seconds {
            if let hint = job.notBeforeHint { effects.append(.log(.unusualNotBefore(job, hint: hint))) }
            // Redis' sorted sets hold doubles: 2^53 ms is the last exact one.
            let milliseconds = Int64(min(due * 1000, 9_007_199_254_740_992))
            settler.postpone(claim, list: list, .at(milliseconds: milliseconds), &effects)
            return true
        }
        let app = try plan.app(for: job)
        guard apps[app].takesOne(now: now), !lists[list].stops(app: app) else {
            return giveBack(claim, list: list, toTail: apps.count > 1, &effects)
        }
        let expiration = job.expiration(now: wallClock.unixSeconds)
        let isExpired = job.isExpired(now: wallClock.unixSeconds)
        let held = HeldJob(job, list: list, claim: claim.id, app: app, expiration: expiration, claimed: now)
        if isExpired {
            settler.expire(held, wasSent: false, &effects)
        } else if isStoppedByFilter(held) {
            settler.filter(held, &effects)
        } else if held.job.attempts > 0 {
            held.avoiding = memory.session(toAvoid: TokenMemory.Key(app: app, token: held.token))
            take(held)
        } else if memory.hasPauses(now: now),
            let pause = memory.pause(TokenMemory.Key(app: app, token: held.token), now: now)
        {
            settler.postpone(claim, list: list, .after(pause), &effects)
        } else {
            take(held)
        }
        return true
    }

    private mutating func take(_ job: HeldJob) {
        apps[job.app].took(held.insert(job), job, topic: plan.apps[job.app].topic)
    }

    /// Replaces a job with several tokens by its parts. Too many bytes at once go back: they are split when the parts before
    /// them are gone.
    private mutating func split(
        _ job: borrowing Job, of claim: ClaimedJob, list: Int, _ effects: inout [DispatchEffect]
    ) -> Bool {
        guard lists[list].splitsMore, let parts = job.parts() else {
            return giveBack(claim, list: list, toTail: false, &effects)
        }
        lists[list].split(parts)
        settler.split(claim, list: list, into: parts, &effects)
        return true
    }

    /// Returns whether the filter stops the job. If it masks words instead, the job gets a masked payload.
    private func isStoppedByFilter(_ job: HeldJob) -> Bool {
        guard let filter = plan.filter else { return false }
        switch filter.judge(job.job.data, of: job.job.bytes) {
        case .clean: return false
        case .stopped: return true
        case .masked(let payload):
            job.maskedPayload = payload
            return false
        }
    }

    private mutating func giveBack(
        _ claim: ClaimedJob, list: Int, toTail: Bool, _ effects: inout [DispatchEffect]
    ) -> Bool {
        settler.giveBack(claim, list: list, toTail: toTail, &effects)
        return false
    }

    // MARK: Notifications

    /// Moves the notifications that may go out to `batch`, which is empty. Those of a list whose lease is in doubt stay here:
    /// another worker may soon hold their jobs.
    mutating func takeOutgoing(of app: Int, into batch: inout [Notification]) {
        if lists.contains(where: \.isInDoubt) {
            let (held, lists) = (held, lists)
            apps[app].suspend { id in held[id].map { lists[$0.list].isInDoubt } ?? false }
        }
        apps[app].takeOutgoing(into: &batch)
    }

    /// A pool has given back notifications that no session had taken.
    mutating func withdrew(
        _ ids: [JobID], _ withdrawal: DispatchEffect.Withdrawal, app: Int, _ effects: inout [DispatchEffect]
    ) {
        for id in ids {
            switch withdrawal {
            case .release: release(id, &effects)
            case .giveBack: giveBackPaused(id, &effects)
            case .keep: if let job = held[id] { apps[app].suspend(id, job, topic: plan.apps[app].topic) }
            case .forget: _ = remove(id)
            }
        }
    }

    /// The app whose job this is; `nil` if the job is no longer held.
    func app(of id: JobID) -> Int? { held[id]?.app }

    // MARK: Outcomes

    /// - Parameter times: for results and metrics; `nil` without them.
    mutating func delivered(
        _ id: JobID, apnsID: String?, times: AttemptTimes? = nil, _ effects: inout [DispatchEffect]
    ) {
        guard let job = remove(id) else { return }
        apps[job.app].responses.countAcceptance()
        if let times { answered(job, times) }
        if !apps[job.app].breaker.isAtRest { accepted(job, &effects) }
        settler.delivered(job, apnsID: apnsID, &effects)
    }

    /// APNs has responded to the last attempt.
    private mutating func answered(_ job: HeldJob, _ times: AttemptTimes) {
        job.times = times
        apps[job.app].responses.record(claimed: job.claimed, times)
    }

    /// A job was accepted while its app's breaker was not at rest.
    private mutating func accepted(_ job: HeldJob, _ effects: inout [DispatchEffect]) {
        let wasHeld = apps[job.app].breaker.isHeld
        let changes = apps[job.app].breaker.accepted()
        if wasHeld && changes.contains(.resume) { apps[job.app].culprits.holdEnded(by: job.fingerprint) }
        perform(changes, app: job.app, &effects)
    }

    /// The request has left with this deadline.
    mutating func began(_ id: JobID, expiration: Int64) { held[id]?.expiration = expiration }

    /// An attempt ended without an acceptance.
    ///
    /// - Parameters:
    ///   - isCurrent: whether the session presents the credential that is in use now.
    ///   - random: from 0 to 1, for jitter.
    mutating func failed(
        _ id: JobID, _ outcome: Outcome, on session: SessionID, isCurrent: Bool, random: Double, times: AttemptTimes? = nil,
        _ effects: inout [DispatchEffect]
    ) {
        guard let job = held[id] else { return }
        // The worker that holds it now sends, counts and logs it.
        if job.isDisowned {
            _ = remove(id)
            return
        }
        let app = job.app
        let isResponse = apps[app].responses.count(outcome)
        if let times { if isResponse { answered(job, times) } else { job.times = times } }
        if isCurrent, let throttle = RetryPolicy.throttle(outcome) {
            throttled(throttle.hold, pause: throttle.pause, app: app, &effects)
        }
        let standing = RetryPolicy.Standing(
            attempts: job.job.attempts, resends: job.resends, doubtful: job.doubtful,
            isTopicFromSettings: job.job.usesTopicOfApp, namesChannel: job.job.namesChannel)
        switch plan.policy.decide(outcome, standing, random: random) {
        case .resend(let mayDuplicate):
            job.maybeDuplicates += mayDuplicate ? 1 : 0
            resend(id, avoiding: session, &effects)
        case .postpone(let pause):
            // At shutdown it goes back at once: the next process has other sessions.
            guard shutdown.isRunning else { return release(id, &effects) }
            if let job = remove(id) { settler.postpone(job, by: pause, &effects) }
        case .expire:
            perform(apps[app].breaker.probeWasInconclusive(now: now), app: app, &effects)
            if let job = remove(id) { settler.expire(job, wasSent: false, &effects) }
        case .retryLater(let delay, let pausesToken):
            perform(apps[app].breaker.probeWasInconclusive(now: now), app: app, &effects)
            let key = TokenMemory.Key(app: app, token: job.token)
            memory.failed(key, on: session, delay: delay, pauses: pausesToken, now: now)
            if let job = remove(id) { settler.retry(job, outcome, after: delay, &effects) }
        case .deadLetter(let verdict):
            let changes =
                RetryPolicy.isResponseAboutJob(outcome)
                ? apps[app].breaker.answered() : apps[app].breaker.probeWasInconclusive(now: now)
            perform(changes, app: app, &effects)
            deadLetter(id, outcome, verdict, &effects)
        case .suspect: suspected(id, outcome, on: session, isCurrent: isCurrent, &effects)
        case .hold(let reason): faulted(id, outcome, reason, isCurrent: isCurrent, &effects)
        case .renewToken:
            guard isCurrent else { return resend(id, avoiding: session, &effects) }
            effects.append(.renewToken(for: id, refusedOn: session, app: app))
        }
    }

    /// The response holds the app, unless the job alone is the cause.
    private mutating func faulted(
        _ id: JobID, _ outcome: Outcome, _ reason: HoldReason, isCurrent: Bool, _ effects: inout [DispatchEffect]
    ) {
        guard let job = held[id] else { return }
        let app = job.app
        if reason == .tokenUpdates { effects.append(.keepToken(app: app)) }
        if case .maybeProcessed = outcome { job.maybeDuplicates += 1 }
        if isCurrent, RetryPolicy.isResponseAboutJob(outcome), reason.mayBeOfOneJob,
            apps[app].culprits.rejected(job.fingerprint)
        {
            perform(apps[app].breaker.probeWasInconclusive(now: now), app: app, &effects)
            return deadLetter(id, outcome, nil, &effects)
        }
        // If APNs rejects this job alone, the next probe is another one.
        release(id, toTail: apps[app].breaker.isProbing || apps[app].breaker.isClosed, &effects)
        if isCurrent { perform(apps[app].breaker.faulted(reason, now: now), app: app, &effects) }
    }

    mutating func renewedToken(
        _ renewal: SessionPool.TokenRenewal, for id: JobID, refusedOn session: SessionID, _ effects: inout [DispatchEffect]
    ) {
        guard let job = held[id] else { return }
        switch renewal {
        case .renewed, .alreadyRenewed: resend(id, avoiding: session, &effects)
        case .tooYoung, .noSigningKey:
            release(id, &effects)
            let changes = apps[job.app].breaker.faulted(.credential("ExpiredProviderToken"), now: now)
            perform(changes, app: job.app, &effects)
        }
    }

    /// Sends the job again at once, on another session if there is one. At shutdown and while the app is held it goes back.
    private mutating func resend(_ id: JobID, avoiding session: SessionID, _ effects: inout [DispatchEffect]) {
        guard let job = held[id] else { return }
        guard shutdown.isRunning, !apps[job.app].breaker.isHeld else { return release(id, &effects) }
        guard !lists[job.list].stops(app: job.app) else { return giveBackPaused(id, &effects) }
        job.avoiding = session
        job.resends += 1
        settler.countResend()
        apps[job.app].send(id, job, topic: plan.apps[job.app].topic)
    }

    /// The job waits for an acceptance of its app. The response of a session with a replaced credential is no reason for a dead
    /// letter while a current session can be asked.
    private mutating func suspected(
        _ id: JobID, _ outcome: Outcome, on session: SessionID, isCurrent: Bool, _ effects: inout [DispatchEffect]
    ) {
        guard let job = held[id], case .rejected(let rejection) = outcome else { return }
        let app = job.app
        if !isCurrent && apps[app].breaker.isClosed && job.resends < RetryPolicy.uncountedResends {
            return resend(id, avoiding: session, &effects)
        }
        let isProbe = apps[app].breaker.isHeld
        let wasClosed = apps[app].breaker.isClosed
        let changes = apps[app].breaker.suspected(now: now)
        if isProbe || !shutdown.isRunning {
            release(id, toTail: isProbe, &effects)
        } else {
            job.suspectResponse = HeldJob.SuspectResponse(rejection: rejection, isStale: !isCurrent)
            apps[app].becameSuspect(id, now: now)
            if apps[app].suspects == 1 && !wasClosed { effects.append(.log(.firstSuspect(app: plan.apps[app].label, outcome))) }
        }
        perform(changes, app: app, &effects)
    }

    private mutating func deadLetter(
        _ id: JobID, _ outcome: Outcome, _ verdict: TokenVerdict?, _ effects: inout [DispatchEffect]
    ) {
        guard let job = remove(id) else { return }
        settler.deadLetter(job, outcome, verdict, topic: job.job.topic(ofApp: plan.apps[job.app].topic), &effects)
    }

    private mutating func remove(_ id: JobID) -> HeldJob? {
        guard let job = held.remove(id) else { return nil }
        apps[job.app].ended(job)
        return job
    }

    private mutating func release(_ id: JobID, toTail: Bool = false, _ effects: inout [DispatchEffect]) {
        guard let job = remove(id) else { return }
        settler.release(job, toTail: toTail || apps.count > 1, asClaimed: !shutdown.isRunning, &effects)
    }

    // MARK: Circuit breakers

    private mutating func perform(_ changes: [CircuitBreaker.Effect], app: Int, _ effects: inout [DispatchEffect]) {
        for change in changes {
            switch change {
            case .hold(let reason):
                effects.append(.log(.held(app: plan.apps[app].label, reason)))
                takeBack(app: app, &effects)
                releaseSuspects(of: app, &effects)
            case .reconnect: effects.append(.reconnect(app: app))
            case .resume:
                apps[app].culprits.forgetRejections()
                effects.append(.log(.resumed(app: plan.apps[app].label)))
                for list in lists.indices { lists[list].resume() }
                // The other apps with this credential may have no job with which to probe.
                for other in plan.apps[app].sharers where other != app {
                    perform(apps[other].breaker.throttleEnded(), app: other, &effects)
                }
            case .settleSuspects: settle(apps[app].takeSuspects(), &effects)
            }
        }
    }

    /// A 429 that concerns neither a device nor the provider token: every app with this credential and host waits
    /// (docs/answers.md).
    private mutating func throttled(
        _ reason: HoldReason, pause: Duration?, app: Int, _ effects: inout [DispatchEffect]
    ) {
        for other in plan.apps[app].sharers {
            let changes = apps[other].breaker.throttled(reason, for: pause, now: now, isOwnResponse: other == app)
            perform(changes, app: other, &effects)
        }
    }

    private mutating func releaseSuspects(of app: Int, _ effects: inout [DispatchEffect]) {
        for id in apps[app].takeSuspects() { release(id, toTail: true, &effects) }
    }

    /// The environment is right, so the tokens are wrong.
    private mutating func settle(_ suspects: [JobID], _ effects: inout [DispatchEffect]) {
        for id in suspects {
            guard let response = held[id]?.suspectResponse else { continue }
            if response.isStale {
                release(id, toTail: true, &effects)
            } else {
                deadLetter(id, .rejected(response.rejection), .suspect, &effects)
            }
        }
    }

    /// Returns to its list what no session has taken.
    private mutating func takeBack(app: Int, _ effects: inout [DispatchEffect]) {
        for id in apps[app].takeUnsent() { release(id, &effects) }
        effects.append(.withdraw(.release, app: app))
    }

    // MARK: Pools

    /// - Parameter isCurrent: for an ended session, whether it presented the credential that is in use now.
    mutating func happened(_ event: PoolEvent, app: Int, isCurrent: Bool, _ effects: inout [DispatchEffect]) {
        if let entry = LogEntry.pool(event, app: plan.apps[app].label) { effects.append(.log(entry)) }
        switch event {
        case .opened(let session, _, _): apps[app].opened(session)
        case .closed(let session, _, let error):
            apps[app].closed(session)
            sessionFailed(error, app: app, isCurrent: isCurrent, &effects)
        case .dialFailed(_, _, let error, _): sessionFailed(error, app: app, isCurrent: isCurrent, &effects)
        // The list counts what the pool cannot send soon.
        case .slowed: takeBack(app: app, &effects)
        case .capacityChanged, .resized, .slowdownEnded, .tokens, .limited: break
        }
    }

    private mutating func sessionFailed(
        _ error: SessionError, app: Int, isCurrent: Bool, _ effects: inout [DispatchEffect]
    ) {
        guard isCurrent, let reason = HoldReason(error) else { return }
        perform(apps[app].breaker.faulted(reason, now: now), app: app, &effects)
    }

    // MARK: Lists

    /// - Parameter server: where it was found, if the settings do not name it.
    mutating func connected(_ list: Int, server: String?, warnings: [String], _ effects: inout [DispatchEffect]) {
        lists[list].connected()
        let held = held
        for app in apps.indices { apps[app].resume { held[$0]?.list == list } }
        effects.append(.log(.connected(at: server, list: lists[list].name)))
        for warning in warnings { effects.append(.log(.redisWarning(warning))) }
    }

    mutating func disconnected(_ list: Int) { lists[list].disconnected() }

    mutating func leaseInDoubt(_ list: Int, _ effects: inout [DispatchEffect]) {
        lists[list].leaseInDoubt()
        effects.append(.log(.leaseInDoubt(list: lists.count == 1 ? nil : lists[list].name)))
        let ids = Set(held.ids { $0.list == list })
        for app in apps.indices { effects.append(.withdraw(.keep(ids), app: app)) }
    }

    /// Another worker has these jobs now. Those on streams are forgotten when their outcomes arrive, which settle nothing.
    mutating func disowned(_ claims: Set<ClaimID>, list: Int, _ effects: inout [DispatchEffect]) {
        let ids = Set(held.ids { $0.list == list && claims.contains($0.claim) })
        for app in apps.indices {
            for id in apps[app].takeUnsent(of: ids) { _ = remove(id) }
            effects.append(.withdraw(.forget(ids), app: app))
        }
        for id in ids {
            if held[id]?.suspectResponse != nil { _ = remove(id) }
            held[id]?.isDisowned = true
        }
        effects.append(.log(.disowned(claims.count)))
    }

    /// These pauses are in force from now on. Requests on the wire complete; jobs that no session has taken return to the list.
    mutating func paused(_ pauses: [QueuePause], list: Int, _ effects: inout [DispatchEffect]) {
        let known = lists[list].pauses.map(\.note)
        let notes = pauses.map(PauseNote.init)
        let name = lists.count == 1 ? nil : lists[list].name
        for note in known where !notes.contains(where: { $0.app == note.app }) {
            effects.append(.log(.unpaused(note, list: name)))
        }
        for note in notes where !known.contains(note) { effects.append(.log(.paused(note, list: name))) }
        lists[list].paused(
            notes.map { note in (note, Set(plan.apps.indices.filter { note.stops(app: plan.apps[$0].name) })) })
        for app in apps.indices {
            apps[app].isPaused = lists.allSatisfy { $0.stops(app: app) }
            if lists[list].stops(app: app) { takeBackPaused(app: app, list: list, &effects) }
        }
    }

    private mutating func takeBackPaused(app: Int, list: Int, _ effects: inout [DispatchEffect]) {
        let ids = Set(held.ids { $0.app == app && $0.list == list })
        if ids.isEmpty { return }
        for id in apps[app].takeUnsent(of: ids) { giveBackPaused(id, &effects) }
        for id in ids where held[id]?.suspectResponse != nil { giveBackPaused(id, &effects) }
        effects.append(.withdraw(.giveBack(ids), app: app))
    }

    /// Jobs of a paused list return to its head. Those of a paused app go to its tail if there are other apps.
    private mutating func giveBackPaused(_ id: JobID, _ effects: inout [DispatchEffect]) {
        guard let list = held[id]?.list, let job = remove(id) else { return }
        let toTail = !lists[list].isPaused && apps.count > 1
        settler.release(job, toTail: toTail, asClaimed: !shutdown.isRunning, &effects)
    }

    mutating func stopped(_ list: Int, _ effects: inout [DispatchEffect]) {
        lists[list].stopped()
        if lists.allSatisfy(\.isStopped) { perform(shutdown.everyListStopped(), &effects) }
    }

    // MARK: Signals

    mutating func reloadSignalReceived(_ effects: inout [DispatchEffect]) {
        effects.append(shutdown.isRunning ? .readConfiguration : .log(.reloadIgnored))
    }

    /// A configuration was read, and the pools and lists have it already. It has the same apps and lists.
    mutating func adopted(_ plan: DispatchPlan, _ effects: inout [DispatchEffect]) {
        self.plan = plan
        settler.options = plan.settling
        certificates = plan.certificates
        for app in apps.indices {
            // The environment may have changed: responses of the previous one say nothing about the tokens.
            releaseSuspects(of: app, &effects)
            let changes = apps[app].breaker.reloaded()
            // The sessions of a held app may still be refused.
            if !changes.isEmpty { effects.append(.reconnect(app: app)) }
            perform(changes, app: app, &effects)
        }
        effects.append(.log(.reloaded))
    }

    mutating func stopSignalReceived(_ effects: inout [DispatchEffect]) {
        perform(shutdown.stopSignalReceived(timeout: plan.drainTimeout, plan.delivery, now: now), &effects)
    }

    private mutating func perform(_ step: Shutdown.Step?, _ effects: inout [DispatchEffect]) {
        switch step {
        case nil: break
        case .drain:
            effects.append(.log(.draining(held.count, timeout: plan.drainTimeout)))
            for app in apps.indices {
                takeBack(app: app, &effects)
                for id in apps[app].takeSuspects() { release(id, &effects) }
            }
        case .leave: effects.append(.log(.leaving(held.count, plan.delivery)))
        case .closePools(let isForced):
            if isForced { effects.append(.log(.leaving(held.count, plan.delivery))) }
            effects.append(.closePools)
        case .finish: effects.append(.log(.stopped(settler.counters)))
        case .giveUp: effects.append(.log(.unconfirmed(plan.delivery)))
        }
    }

    /// The pools are closed and their last outcomes have arrived.
    mutating func poolsClosed(_ effects: inout [DispatchEffect]) {
        for id in held.ids(where: { _ in true }) { release(id, &effects) }
        effects.append(.stopQueues)
    }

    // MARK: Questions

    var isStopped: Bool { shutdown.phase == .stopped }

    /// Whether a stop signal has arrived.
    var isLeaving: Bool { !shutdown.isRunning }

    var counters: Counters { settler.counters }
    var inFlight: Int { held.count }

    /// Of `streams`, the notifications that wait in the pool are to be subtracted.
    var snapshot: ProcessSnapshot {
        ProcessSnapshot(
            isLeaving: isLeaving, inFlight: held.count, counters: settler.counters,
            apps: apps.indices.map { appSnapshot($0) },
            lists: lists.map {
                ProcessSnapshot.List(
                    name: $0.name, isConnected: $0.isConnected, isInDoubt: $0.isInDoubt, pauses: $0.pauses.map(\.note))
            })
    }

    private func appSnapshot(_ app: Int) -> ProcessSnapshot.App {
        let name = plan.apps[app].name
        return ProcessSnapshot.App(
            name: name, sessions: apps[app].sessions.count, capacity: apps[app].reading.capacity, held: apps[app].held,
            streams: apps[app].handedOver, hold: apps[app].breaker.holdReason,
            isPaused: lists.contains { $0.pauses.contains { $0.note.stops(app: name) } }, responses: apps[app].responses,
            certificateExpires: plan.apps[app].certificateExpires)
    }
}
