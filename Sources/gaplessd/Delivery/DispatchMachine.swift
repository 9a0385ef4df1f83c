import DequeModule
import Platform
import PushPool
import RedisQueue

/// Decides what the dispatcher does next: takes facts about lists, pools, signals and time, and returns effects. It knows no
/// socket and no clock.
///
/// A turn is: `turnBegan`, facts, `tick`, offers to the lists, their claims, `takeOutgoing`. `JobPlacer` decides what becomes of
/// a claimed job, `OutcomeRules` what an outcome means, `JobFlow` moves the jobs that are held, and `Shutdown` decides when
/// to stop.
struct DispatchMachine: ~Copyable {
    private var plan: DispatchPlan
    private var jobs: JobFlow
    private var placer: JobPlacer
    private var rules: OutcomeRules
    private var lists: [ListState]
    private var budget = ClaimBudget()
    private var shutdown = Shutdown()
    private var certificates: CertificateWatch
    private var places = FreePlaces()
    /// Whether Redis has served a list.
    private(set) var hasConnected = false
    // The time of this turn.
    private var now: Instant
    private var wallClock: WallClock

    /// - Parameter workers: the name of this worker at each list.
    init(_ plan: DispatchPlan, workers: [String], now: Instant, wallClock: WallClock) {
        self.plan = plan
        self.now = now
        self.wallClock = wallClock
        jobs = JobFlow(plan, workers: workers, now: now, wallClock: wallClock)
        placer = JobPlacer(plan: plan)
        rules = OutcomeRules(policy: plan.policy)
        lists = plan.lists.map(ListState.init)
        certificates = plan.certificates
    }

    // MARK: Time

    mutating func turnBegan(now: Instant, wallClock: WallClock) {
        self.now = now
        self.wallClock = wallClock
        jobs.turnBegan(now: now, wallClock: wallClock)
    }

    /// Does what is due, after the facts of the turn.
    mutating func tick(_ effects: inout [DispatchEffect]) {
        jobs.tick(&effects)
        for warning in certificates.look(now: now, wallClock: wallClock) { effects.append(.log(.certificate(warning))) }
        perform(shutdown.tick(now: now, held: jobs.count), &effects)
    }

    /// The earliest pending timer.
    var deadline: Instant? {
        var next = Earliest(budget.nextRefill)
        next.consider(jobs.deadline)
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
        places.isDivided = jobs.hasAsides
        if !shutdown.isRunning { return }
        var waiting = 0
        for app in plan.apps.indices {
            let demand = jobs.demand(of: app)
            let free = budget.places(
                demand.places, under: demand.limit.map(ClaimBudget.Rate.init), waiting: demand.waiting, now: now)
            places.add(free)
            // Jobs of an app without places wait for its streams.
            if demand.places > 0 { waiting += demand.waiting }
        }
        places.limit { budget.places($0, under: limit, waiting: waiting, now: now) }
    }

    /// Returns how many jobs to claim from `list`. A list of lower priority gets places only while those before it are empty.
    ///
    /// - Parameter mayHaveJobs: whether the list lacks only places.
    mutating func offer(to list: Int, mayHaveJobs: Bool) -> Int {
        defer { if lists[list].mayClaim && mayHaveJobs { places.close() } }
        return lists[list].mayClaim ? lists[list].claims(for: places.all { jobs.isAside(app: $0, list: list) }) : 0
    }

    /// Whether `offerAsides` has something to say.
    var hasAsides: Bool { places.isDivided }

    /// Returns how many jobs to claim from the side lists of `list`, by the name of the app. Call before `offer`.
    mutating func offerAsides(to list: Int) -> [(app: String, places: Int)] {
        var offers: [(app: String, places: Int)] = []
        for app in plan.apps.indices where jobs.isAside(app: app, list: list) {
            // A list that Redis does not serve now leaves its places to the next one.
            let mayClaim =
                lists[list].mayClaim && lists[list].isConnected && !jobs.isPaused(app: app, list: list)
            offers.append((plan.apps[app].name ?? "", mayClaim ? places.take(app: app) : 0))
        }
        return offers
    }

    private mutating func claimed(_ claims: [ClaimedJob], list: Int, _ effects: inout [DispatchEffect]) {
        jobs.settler.countClaims(claims.count)
        placer.claimBegan()
        var givenBack = 0
        let isPaused = lists[list].isPaused
        for claim in claims where !placer.place(claim, list: list, isPaused: isPaused, &jobs, &effects) { givenBack += 1 }
        if plan.apps.count > 1 { lists[list].claimEnded(placed: givenBack < claims.count, givenBack: givenBack > 0) }
    }

    /// Takes over which apps of the settings have side lists.
    private mutating func markAsides(of list: Int) {
        for app in plan.apps.indices {
            jobs.setAside(lists[list].asides.contains(plan.apps[app].name ?? ""), app: app, list: list)
        }
    }

    /// Jobs of an app that the settings do not have return to the list, where they are bad jobs.
    private mutating func restoreUnknownAsides(of list: Int, _ effects: inout [DispatchEffect]) {
        let known = Set(plan.apps.map { $0.name ?? "" })
        for app in lists[list].asides.subtracting(known).sorted() { effects.append(.restore(aside: app, list: list)) }
    }

    // MARK: Notifications

    /// Moves the notifications that may go out to `batch`, which is empty. Those of a list whose lease is in doubt stay here:
    /// another worker may soon hold their jobs.
    mutating func takeOutgoing(of app: Int, into batch: inout [Notification]) {
        if lists.contains(where: \.isInDoubt) {
            let lists = lists
            jobs.suspend(app: app) { lists[$0].isInDoubt }
        }
        jobs.takeOutgoing(of: app, into: &batch)
    }

    /// A pool has given back notifications that no session had taken.
    mutating func withdrew(
        _ ids: [JobID], _ withdrawal: DispatchEffect.Withdrawal, app: Int, _ effects: inout [DispatchEffect]
    ) {
        jobs.withdrew(ids, withdrawal, app: app, &effects)
    }

    /// The app whose job this is; `nil` if the job is no longer held.
    func app(of id: JobID) -> Int? { jobs[id]?.app }

    // MARK: Outcomes

    /// Whether an acceptance may change a circuit breaker. Only then it matters which credential the session presents.
    var awaitsAcceptance: Bool { jobs.awaitsAcceptance }

    /// - Parameters:
    ///   - isCurrent: whether the session presents the credential that is in use now; any value unless `awaitsAcceptance`.
    ///   - times: for results and metrics; `nil` without them.
    mutating func delivered(
        _ id: JobID, apnsID: String?, isCurrent: Bool, times: AttemptTimes? = nil, _ effects: inout [DispatchEffect]
    ) {
        rules.delivered(id, apnsID: apnsID, isCurrent: isCurrent, times: times, &jobs, &effects)
    }

    /// The request has left with this deadline.
    func began(_ id: JobID, expiration: Int64) { jobs[id]?.expiration = expiration }

    /// An attempt ended without an acceptance.
    ///
    /// - Parameters:
    ///   - isCurrent: whether the session presents the credential that is in use now.
    ///   - random: from 0 to 1, for jitter.
    mutating func failed(
        _ id: JobID, _ outcome: Outcome, on session: SessionID, isCurrent: Bool, random: Double, times: AttemptTimes? = nil,
        _ effects: inout [DispatchEffect]
    ) {
        rules.failed(id, outcome, on: session, isCurrent: isCurrent, random: random, times: times, &jobs, &effects)
    }

    mutating func renewedToken(
        _ renewal: SessionPool.TokenRenewal, for id: JobID, refusedOn session: SessionID, _ effects: inout [DispatchEffect]
    ) {
        rules.renewedToken(renewal, for: id, refusedOn: session, &jobs, &effects)
    }

    /// Redis remembers acceptances: the time since the last one, by `DispatchPlan.App.fingerprint`.
    mutating func remembered(_ ages: [String: Duration], _ effects: inout [DispatchEffect]) { jobs.remembered(ages, &effects) }

    // MARK: Pools

    mutating func observed(_ reading: AppState.PoolReading, app: Int) { jobs.observed(reading, app: app) }

    /// - Parameter isCurrent: for an ended session, whether it presented the credential that is in use now.
    mutating func happened(_ event: PoolEvent, app: Int, isCurrent: Bool, _ effects: inout [DispatchEffect]) {
        jobs.happened(event, app: app, isCurrent: isCurrent, &effects)
    }

    // MARK: Lists

    /// - Parameter server: where the list was found, if it has just connected and the settings do not name it.
    mutating func happened(_ event: QueueEvent, list: Int, server: Endpoint? = nil, _ effects: inout [DispatchEffect]) {
        let name = lists[list].name
        switch event {
        case .claimed(let claims): claimed(claims, list: list, &effects)
        case .suspects(let claims): for claim in claims { jobs.settler.rejectCrashSuspect(claim, list: list, &effects) }
        case .disowned(let claims, let loss):
            // Those on streams are forgotten when their outcomes arrive, which settle nothing.
            jobs.disowned(Set(claims), list: list, &effects)
            effects.append(.log(.disowned(claims.count, loss)))
        case .registrationLost:
            // The log gets the cause once the worker is registered again.
            lists[list].leaseInDoubt()
            jobs.leaseInDoubt(list: list, &effects)
        case .renamed(let worker, let number):
            jobs.settler.renamed(to: worker, list: list)
            effects.append(.log(.renamed(to: worker, number: number, list: nameInLog(of: list))))
        case .leaseInDoubt:
            lists[list].leaseInDoubt()
            effects.append(.log(.leaseInDoubt(list: nameInLog(of: list))))
            jobs.leaseInDoubt(list: list, &effects)
        case .connected(let warnings):
            hasConnected = true
            lists[list].connected()
            jobs.resume(list: list)
            restoreUnknownAsides(of: list, &effects)
            effects.append(.log(.connected(at: server.map { "\($0)" }, list: name)))
            for warning in warnings { effects.append(.log(.redisWarning(warning))) }
        case .resumed:
            hasConnected = true
            lists[list].connected()
            jobs.resume(list: list)
        case .interrupted: lists[list].disconnected()
        case .disconnected(let why):
            lists[list].disconnected()
            effects.append(.log(.disconnected(why, from: plan.server)))
        case .refused: lists[list].disconnected()
        case .limited(let why): effects.append(.log(.redisWarning("\(why).")))
        case .recordsTrimmed(let records, let count): effects.append(.log(.recordsTrimmed(records, count, list: name)))
        case .recordsMany(let records, let count): effects.append(.log(.recordsMany(records, count, list: name)))
        case .recovered(_, 0): break  // It died idle.
        case .recovered(let worker, let jobs): effects.append(.log(.recovered(jobs, worker: worker)))
        case .paused(let pauses): paused(pauses, list: list, &effects)
        case .aside(let apps):
            lists[list].asides = Set(apps)
            markAsides(of: list)
        case .stopped:
            lists[list].stopped()
            if lists.allSatisfy(\.isStopped) { perform(shutdown.everyListStopped(), &effects) }
        }
    }

    /// These pauses are in force from now on. Requests on the wire complete; jobs that no session has taken return to the list.
    private mutating func paused(_ pauses: [QueuePause], list: Int, _ effects: inout [DispatchEffect]) {
        let known = lists[list].pauses
        let notes = pauses.map(PauseNote.init)
        let name = nameInLog(of: list)
        for note in known where !notes.contains(where: { $0.app == note.app }) {
            effects.append(.log(.unpaused(note, list: name)))
        }
        for note in notes where !known.contains(note) { effects.append(.log(.paused(note, list: name))) }
        let areStopped = plan.apps.map { app in notes.contains { $0.stops(app: app.name) } }
        lists[list].paused(notes, isWhole: areStopped.allSatisfy(\.self))
        for app in plan.apps.indices { jobs.setPaused(areStopped[app], app: app, list: list) }
        for app in plan.apps.indices where areStopped[app] { jobs.takeBackPaused(app: app, list: list, &effects) }
    }

    private func nameInLog(of list: Int) -> String? { lists.count == 1 ? nil : lists[list].name }

    // MARK: Signals

    mutating func reloadSignalReceived(_ effects: inout [DispatchEffect]) {
        effects.append(shutdown.isRunning ? .readConfiguration : .log(.reloadIgnored))
    }

    /// Holds the apps whose credentials cannot be used. Call once, at the start.
    mutating func holdFaultyApps(_ effects: inout [DispatchEffect]) { jobs.holdFaultyApps(&effects) }

    /// A configuration was read, and the pools and lists have it already. It has the same apps and lists.
    ///
    /// - Parameter replaced: for each app, whether its sessions are replaced; `nil` is all.
    mutating func adopted(_ plan: DispatchPlan, replaced: [Bool]? = nil, _ effects: inout [DispatchEffect]) {
        self.plan = plan
        placer.plan = plan
        rules.policy = plan.policy
        certificates = plan.certificates
        jobs.adopted(plan, replaced: replaced ?? plan.apps.map { _ in true }, &effects)
        for list in lists.indices where !lists[list].asides.isEmpty {
            markAsides(of: list)
            restoreUnknownAsides(of: list, &effects)
        }
        effects.append(.log(.reloaded(keepsSessions: replaced?.contains(true) == false)))
    }

    mutating func stopSignalReceived(_ effects: inout [DispatchEffect]) {
        perform(shutdown.stopSignalReceived(timeout: plan.drainTimeout, plan.delivery, now: now), &effects)
    }

    private mutating func perform(_ step: Shutdown.Step?, _ effects: inout [DispatchEffect]) {
        switch step {
        case nil: break
        case .drain:
            effects.append(.log(.draining(jobs.count, timeout: plan.drainTimeout)))
            jobs.drain(&effects)
        case .leave: effects.append(.log(.leaving(jobs.count, plan.delivery)))
        case .closePools(let isForced):
            if isForced { effects.append(.log(.leaving(jobs.count, plan.delivery))) }
            effects.append(.closePools)
        case .finish: effects.append(.log(.stopped(jobs.counters)))
        case .giveUp: effects.append(.log(.unconfirmed(plan.delivery)))
        }
    }

    /// The pools are closed and their last outcomes have arrived.
    mutating func poolsClosed(_ effects: inout [DispatchEffect]) {
        jobs.releaseAll(&effects)
        effects.append(.stopQueues)
    }

    // MARK: Questions

    var isStopped: Bool { shutdown.phase == .stopped }

    func isHeld(app: Int) -> Bool { jobs.apps[app].breaker.isHeld }

    /// Whether a stop signal has arrived.
    var isLeaving: Bool { !shutdown.isRunning }

    var counters: Counters { jobs.counters }
    var inFlight: Int { jobs.count }

    /// Of `streams`, the notifications that wait in the pool are to be subtracted.
    var snapshot: ProcessSnapshot {
        ProcessSnapshot(
            isLeaving: isLeaving, inFlight: jobs.count, counters: jobs.counters,
            apps: plan.apps.indices.map { jobs.snapshot(of: $0) },
            lists: lists.map {
                ProcessSnapshot.List(
                    name: $0.name, isConnected: $0.isConnected, isInDoubt: $0.isInDoubt, pauses: $0.pauses)
            })
    }
}

/// The next action of the shell for `DispatchMachine`; the order counts.
enum DispatchEffect: Equatable {
    /// The notifications to take back from a pool's queue, and the next place of their jobs.
    enum Withdrawal: Equatable {
        /// All that no session has taken; their jobs go back to the list.
        case release
        /// The notifications of these jobs, which wait until the lease is certain again.
        case keep(Set<JobID>)
        /// The notifications of these jobs, which go back to their place in the list.
        case giveBack(Set<JobID>)
        /// The notifications of these jobs, which another worker holds now.
        case forget(Set<JobID>)
    }

    /// APNs accepted the job at the first attempt, and no result is recorded: the end of nearly all jobs.
    case acknowledge(ClaimID, list: Int)
    indirect case settle(Settlement, list: Int)
    /// Return the jobs of the side list of an app that the settings do not have.
    case restore(aside: String, list: Int)
    /// APNs may have accepted an attempt, and another one follows, here or by another worker.
    case countMaybeDuplicate(list: Int)
    /// A delivered job for its `Sent:` line, already redacted.
    case logSent([UInt8])
    indirect case log(LogEntry)
    /// Answered by `withdrew`.
    indirect case withdraw(Withdrawal, app: Int)
    /// Close the app's sessions and dial again.
    case reconnect(app: Int)
    /// Use the session no more: APNs refuses its credential, which was replaced.
    case retire(SessionID, app: Int)
    /// Sign a provider token. Answered by `renewedToken`.
    case renewToken(for: JobID, refusedOn: SessionID, app: Int)
    /// Sign no provider token for 20 minutes.
    case keepToken(app: Int)
    /// Read settings and credentials; if they can be adopted, answered by `adopted`.
    case readConfiguration
    /// Close every pool, with `withdrew` for its queue and `failed` for its attempts. Answered by `poolsClosed`.
    case closePools
    /// Confirm the last settlements. Answered by `stopped` of each list.
    case stopQueues
}
