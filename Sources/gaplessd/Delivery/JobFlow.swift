import DequeModule
import Platform
import PushPool
import RedisQueue

/// The jobs that this process holds, and the apps that send them: moves each job from its claim to its end.
///
/// A job is held from its claim on: its notification goes to the app's pool at the end of the turn, waits there, and occupies a
/// stream until its outcome arrives. The outcome settles it, or it goes out again. A job that no session has taken goes back to
/// its list as soon as its app may not or cannot send.
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
/// `JobPlacer` decides what comes before, `OutcomeRules` what an outcome means, and `CircuitBreaker` whether an app may send.
struct JobFlow: ~Copyable {
    private(set) var plan: DispatchPlan
    var apps: UniqueDeque<AppState>
    private var held = HeldJobs()
    /// Ends jobs, including those that were never held.
    var settler: JobSettler
    /// Recent failures of device tokens.
    var memory = TokenMemory()
    /// After a stop signal nothing goes out.
    private(set) var isLeaving = false
    // The time of this turn.
    private(set) var now: Instant
    private(set) var wallClock: WallClock

    /// - Parameter workers: the name of this worker at each list.
    init(_ plan: DispatchPlan, workers: [String], now: Instant, wallClock: WallClock) {
        self.plan = plan
        self.now = now
        self.wallClock = wallClock
        apps = UniqueDeque()
        for _ in plan.apps { apps.append(AppState(listCount: plan.lists.count)) }
        settler = JobSettler(plan.settling, workers: workers, now: now, wallClock: wallClock)
    }

    // MARK: Time

    mutating func turnBegan(now: Instant, wallClock: WallClock) {
        self.now = now
        self.wallClock = wallClock
        (settler.now, settler.wallClock) = (now, wallClock)
    }

    /// Does what is due, after the facts of the turn.
    mutating func tick(_ effects: inout [DispatchEffect]) {
        for app in apps.indices {
            if apps[app].isUnreachable(now: now) {
                apps[app].tookBack(now: now)
                takeBack(app: app, &effects)
            }
            perform(apps[app].breaker.tick(now: now, isAwaiting: apps[app].isAwaiting), app: app, &effects)
            settle(apps[app].takeOldSuspects(now: now), &effects)
            if apps[app].hasLostProbe { perform(apps[app].breaker.probesWereLost(now: now), app: app, &effects) }
        }
    }

    /// The earliest pending timer.
    var deadline: Instant? {
        var next = Earliest()
        for app in apps.indices { next.consider(apps[app].deadline(now: now)) }
        return next.instant
    }

    // MARK: Claimed jobs

    /// Returns the jobs that an app wants now.
    func demand(of app: Int) -> AppState.Demand { apps[app].demand(now: now) }

    /// Whether the app takes a claimed job of the list. Jobs that are set aside go before those of the list.
    ///
    /// - Parameter wasClaimed: see `ClaimedJob`.
    func takesOne(app: Int, list: Int, wasClaimed: Bool = false) -> Bool {
        guard apps[app].takesOne(from: list, now: now) else { return false }
        return apps.count == 1 || (apps[app].hasRoom && (wasClaimed || !apps[app].isAside(in: list)))
    }

    // MARK: Side lists

    /// Whether an app has a side list.
    var hasAsides: Bool {
        for app in apps.indices where apps[app].isAsideAnywhere { return true }
        return false
    }

    func isAside(app: Int, list: Int) -> Bool { apps[app].isAside(in: list) }

    mutating func setAside(_ isAside: Bool, app: Int, list: Int) { apps[app].setAside(isAside, in: list) }

    func isPaused(app: Int, list: Int) -> Bool { apps[app].isPaused(in: list) }

    /// The side list to which a job of the app goes back, by its name; `nil` for the list itself.
    ///
    /// In a list of several apps, jobs of an app that cannot take them are set aside, so that the others pass. Jobs of a list
    /// that is paused or left return to it, unless older ones of their app are aside.
    mutating func aside(of app: Int, list: Int) -> String? {
        if apps.count > 1 && !isLeaving && !isPausedWhole(list) { apps[app].setAside(true, in: list) }
        return apps[app].isAside(in: list) ? plan.apps[app].name ?? "" : nil
    }

    private func isPausedWhole(_ list: Int) -> Bool {
        for app in apps.indices where !apps[app].isPaused(in: list) { return false }
        return true
    }

    /// Returns how many further jobs an app takes that takes one. Without a limit it takes any number: the others wait for its
    /// streams.
    func places(app: Int) -> Int {
        let allowance = apps[app].breaker.allowance(now: now, suspects: apps[app].suspects)
        let demand = demand(of: app)
        if allowance == .max && demand.limit == nil { return .max }
        let waiting = demand.limit.map { ClaimBudget.Rate(pushesPerSecond: $0).mostWaiting - demand.waiting }
        return max(1, min(demand.places, waiting ?? .max))
    }

    mutating func take(_ job: HeldJob) {
        apps[job.app].took(held.insert(job), job, topic: plan.apps[job.app].topic)
    }

    /// The job, if it is still held.
    subscript(id: JobID) -> HeldJob? { held[id] }

    // MARK: Notifications

    /// Outgoing notifications of lists for which `isInDoubt` holds wait here.
    mutating func suspend(app: Int, where isInDoubt: (Int) -> Bool) {
        let held = held
        apps[app].suspend { id in held[id].map { isInDoubt($0.list) } ?? false }
    }

    /// Moves the outgoing notifications to `batch`, which is empty.
    mutating func takeOutgoing(of app: Int, into batch: inout [Notification]) { apps[app].takeOutgoing(into: &batch) }

    /// A pool has given back notifications that no session had taken.
    mutating func withdrew(
        _ ids: [JobID], _ withdrawal: DispatchEffect.Withdrawal, app: Int, _ effects: inout [DispatchEffect]
    ) {
        for id in ids {
            switch withdrawal {
            case .release, .giveBack: release(id, &effects)
            case .keep: if let job = held[id] { apps[app].suspend(id, job, topic: plan.apps[app].topic) }
            case .forget: forget(id, &effects)
            }
        }
    }

    // MARK: Moves

    /// Sends the job again at once, on another session if there is one. At shutdown and while the app is held it goes back.
    mutating func resend(_ id: JobID, avoiding session: SessionID, _ effects: inout [DispatchEffect]) {
        guard let job = held[id] else { return }
        guard !isLeaving, !apps[job.app].breaker.isHeld else { return release(id, &effects) }
        guard !apps[job.app].isPaused(in: job.list) else { return release(id, &effects) }
        job.avoiding = session
        job.resends += 1
        settler.countResend()
        apps[job.app].send(id, job, topic: plan.apps[job.app].topic)
    }

    /// APNs may have accepted the last attempt of the job. This counts at once: the process may end before it settles the job.
    func doubt(_ job: HeldJob, _ effects: inout [DispatchEffect]) {
        job.maybeDuplicates += 1
        effects.append(.countMaybeDuplicate(list: job.list))
    }

    /// Another worker has the job. Its last attempt here still counts.
    ///
    /// - Parameter isInDoubt: whether APNs may have accepted the last attempt.
    mutating func forget(_ id: JobID, isInDoubt: Bool = false, _ effects: inout [DispatchEffect]) {
        guard let job = remove(id) else { return }
        if isInDoubt { effects.append(.countMaybeDuplicate(list: job.list)) }
    }

    mutating func deadLetter(
        _ id: JobID, _ outcome: Outcome, _ verdict: TokenVerdict?, _ effects: inout [DispatchEffect]
    ) {
        guard let job = remove(id) else { return }
        settler.deadLetter(job, outcome, verdict, topic: job.job.topic(ofApp: plan.apps[job.app].topic), &effects)
    }

    mutating func remove(_ id: JobID) -> HeldJob? {
        guard let job = held.remove(id) else { return nil }
        apps[job.app].ended(job)
        return job
    }

    /// - Parameter keepsDeadline: whether the job was sent, so that a relative expiry does not start again.
    mutating func release(
        _ id: JobID, toTail: Bool = false, keepsDeadline: Bool = false, _ effects: inout [DispatchEffect]
    ) {
        guard let job = remove(id) else { return }
        let aside = aside(of: job.app, list: job.list)
        settler.release(
            job, aside: aside, toTail: toTail && !isLeaving, keepsDeadline: keepsDeadline, asClaimed: isLeaving, &effects)
    }

    // MARK: Circuit breakers

    /// - Parameter isReload: whether a reload is the cause: APNs has not accepted a push yet.
    mutating func perform(
        _ changes: [CircuitBreaker.Effect], app: Int, isReload: Bool = false, _ effects: inout [DispatchEffect]
    ) {
        for change in changes {
            switch change {
            case .hold(let reason):
                effects.append(.log(.held(app: plan.apps[app].label, reason)))
                takeBack(app: app, &effects)
                // The suspects of a known app are settled in time: there are at most 2,000, and none is added during the hold.
                if reason != .suspectTokens || !apps[app].isKnown(now: now) { releaseSuspects(of: app, &effects) }
            case .reconnect: effects.append(.reconnect(app: app))
            case .resume:
                apps[app].culprits.forgetRejections()
                if apps[app].isKnown(now: now) { _ = apps[app].breaker.wasAcceptedElsewhere() }
                effects.append(.log(.resumed(app: plan.apps[app].label, isReload: isReload)))
                // The other apps with this credential may have no job with which to probe.
                for other in plan.apps[app].sharers where other != app {
                    perform(apps[other].breaker.throttleEnded(), app: other, &effects)
                }
            case .settleSuspects: settle(apps[app].takeSuspects(), &effects)
            }
        }
    }

    /// Redis remembers acceptances of these apps, which this process or another one has had.
    ///
    /// - Parameter ages: by `DispatchPlan.App.fingerprint`.
    mutating func remembered(_ ages: [String: Duration], _ effects: inout [DispatchEffect]) {
        for app in apps.indices {
            guard let age = ages[plan.apps[app].fingerprint], apps[app].wasAccepted(at: now - age, now: now) else { continue }
            perform(apps[app].breaker.wasAcceptedElsewhere(), app: app, &effects)
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

    mutating func observed(_ reading: AppState.PoolReading, app: Int) {
        apps[app].observed(reading, now: now)
        if apps.count > 1 { apps[app].watchResponses(now: now) }
    }

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
        case .credentialRefused: apps[app].credentialRefused()
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

    /// The lease of the list is certain again.
    mutating func resume(list: Int) {
        let held = held
        for app in apps.indices { apps[app].resume { held[$0]?.list == list } }
    }

    mutating func leaseInDoubt(list: Int, _ effects: inout [DispatchEffect]) {
        let ids = Set(held.ids { $0.list == list })
        for app in apps.indices { effects.append(.withdraw(.keep(ids), app: app)) }
    }

    /// Another worker has these jobs now. Those on streams are forgotten when their outcomes arrive, which settle nothing.
    mutating func disowned(_ claims: Set<ClaimID>, list: Int, _ effects: inout [DispatchEffect]) {
        let ids = Set(held.ids { $0.list == list && claims.contains($0.claim) })
        for app in apps.indices {
            for id in apps[app].takeUnsent(of: ids) { forget(id, &effects) }
            effects.append(.withdraw(.forget(ids), app: app))
        }
        for id in ids {
            if held[id]?.suspectResponse != nil { forget(id, &effects) }
            held[id]?.isDisowned = true
        }
    }

    /// - Parameter isPaused: whether operators have paused the app in the list.
    mutating func setPaused(_ isPaused: Bool, app: Int, list: Int) { apps[app].setPaused(isPaused, in: list) }

    /// Returns to a list the jobs of a paused app that no session has taken.
    mutating func takeBackPaused(app: Int, list: Int, _ effects: inout [DispatchEffect]) {
        let ids = Set(held.ids { $0.app == app && $0.list == list })
        if ids.isEmpty { return }
        for id in apps[app].takeUnsent(of: ids) { release(id, &effects) }
        for id in ids where held[id]?.suspectResponse != nil { release(id, &effects) }
        effects.append(.withdraw(.giveBack(ids), app: app))
    }

    // MARK: Signals

    /// Holds the apps whose credentials cannot be used.
    mutating func holdFaultyApps(_ effects: inout [DispatchEffect]) {
        for app in apps.indices {
            guard let fault = plan.apps[app].fault else { continue }
            perform(apps[app].breaker.faulted(.unusable(fault), now: now), app: app, &effects)
        }
    }

    /// A configuration with the same apps was read, and the pools have it already.
    ///
    /// - Parameter replaced: for each app, whether its sessions are replaced. The others go on as before.
    mutating func adopted(_ plan: DispatchPlan, replaced: [Bool], _ effects: inout [DispatchEffect]) {
        let old = self.plan
        self.plan = plan
        settler.options = plan.settling
        for app in apps.indices {
            if plan.apps[app].fingerprint != old.apps[app].fingerprint { apps[app].forgetAcceptances() }
            guard replaced[app] && plan.apps[app].fault == nil else { continue }
            // The environment may have changed: responses of the previous one say nothing about the tokens.
            releaseSuspects(of: app, &effects)
            let changes = apps[app].breaker.reloaded(isKnown: apps[app].isKnown(now: now))
            // The sessions of a held app may still be refused.
            if !changes.isEmpty { effects.append(.reconnect(app: app)) }
            perform(changes, app: app, isReload: true, &effects)
        }
        holdFaultyApps(&effects)
    }

    /// A stop signal has arrived: only what is on streams gets its outcome.
    mutating func drain(_ effects: inout [DispatchEffect]) {
        isLeaving = true
        for app in apps.indices {
            takeBack(app: app, &effects)
            for id in apps[app].takeSuspects() { release(id, &effects) }
        }
    }

    /// The pools are closed and their last outcomes have arrived. The jobs that are left were sent by a session that does not
    /// report.
    mutating func releaseAll(_ effects: inout [DispatchEffect]) {
        for id in held.ids(where: { _ in true }) {
            if let job = held[id] { doubt(job, &effects) }
            release(id, &effects)
        }
    }

    // MARK: Questions

    var count: Int { held.count }
    /// Whether the circuit breaker of an app is not at rest.
    var awaitsAcceptance: Bool {
        for app in apps.indices where !apps[app].isAtRest { return true }
        return false
    }
    var counters: Counters { settler.counters }

    func snapshot(of app: Int) -> ProcessSnapshot.App {
        ProcessSnapshot.App(
            name: plan.apps[app].name, sessions: apps[app].sessions.count, capacity: apps[app].reading.capacity,
            held: apps[app].held, streams: apps[app].handedOver, hold: apps[app].breaker.holdReason,
            isPaused: apps[app].isPausedAnywhere, responses: apps[app].responses,
            certificateExpires: plan.apps[app].certificateExpires, fingerprint: plan.apps[app].fingerprint,
            acceptedAt: apps[app].provenAt)
    }
}
