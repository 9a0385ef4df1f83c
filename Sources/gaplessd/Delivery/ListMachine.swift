import Platform
import RedisQueue

/// One list: whether Redis serves it, what operators have paused, which apps have side lists, and what a claim may take.
struct ListMachine {
    /// Jobs per claim while no app takes one: of one script, and so the price of a search through many.
    static let lookAhead = 250

    let name: String
    private(set) var isConnected = false
    /// Whether this worker's lease may have expired: then nothing of this list may be sent.
    private(set) var isInDoubt = false
    private(set) var isStopped = false
    /// The pauses in force.
    private(set) var pauses: [PauseNote] = []
    /// Whether operators have paused the list, or all of its apps.
    private(set) var isPaused = false
    /// The names of the apps whose side lists have jobs, as the queue last reported.
    private var reportedAsides: Set<String> = []
    /// The same apps, and those that have set jobs aside since.
    private(set) var asides: Set<Int> = []
    /// The names of the apps with slots, as the queue last reported, and the same apps, with those that got some since.
    private var reportedSlots: Set<String> = []
    private(set) var slotApps: Set<Int> = []
    /// The last claim found only jobs that were set aside.
    private var looksAhead = false

    init(name: String) { self.name = name }

    mutating func connected() { (isConnected, isInDoubt) = (true, false) }
    mutating func disconnected() { isConnected = false }
    mutating func leaseInDoubt() { isInDoubt = true }
    mutating func stopped() { isStopped = true }

    /// These pauses are in force from now on.
    mutating func paused(_ pauses: [PauseNote], _ plan: borrowing DispatchPlan) {
        self.pauses = pauses
        isPaused =
            !pauses.isEmpty && plan.apps.allSatisfy { app in app.isRemoved || pauses.contains { $0.stops(app: app.name) } }
    }

    /// The settings were read again.
    mutating func adopted(_ plan: borrowing DispatchPlan) {
        paused(pauses, plan)
        if !reportedAsides.isEmpty { reported(asides: Array(reportedAsides), of: plan.routes) }
        if !reportedSlots.isEmpty { reported(slots: Array(reportedSlots), of: plan.routes) }
    }

    // MARK: Side lists

    var hasAsides: Bool { !asides.isEmpty }
    func isAside(app: Int) -> Bool { !asides.isEmpty && asides.contains(app) }
    /// Whether it has a side list or slots of the app.
    func hasJobs(ofApp app: Int) -> Bool { isAside(app: app) || slotApps.contains(app) }
    mutating func setAside(app: Int) { asides.insert(app) }

    /// The queue reports which apps have side lists.
    mutating func reported(asides: [String], of routes: AppRoutes) {
        reportedAsides = Set(asides)
        self.asides = Set(reportedAsides.compactMap(routes.index(ofName:)))
    }

    /// The names of side lists of no app that a daemon of the list has had. None while the list is paused: `cancel` keeps jobs
    /// in such a list meanwhile.
    ///
    /// - Parameter paused: the side lists of paused campaigns, which stay.
    func unknownAsides(besides routes: AppRoutes, paused: Set<String>) -> [String] {
        if reportedAsides.isEmpty || isPaused { return [] }
        return reportedAsides.subtracting(paused).filter { routes.index(ofName: $0) == nil && !routes.isFormer($0) }.sorted()
    }

    // MARK: Slots

    var hasSlots: Bool { !slotApps.isEmpty }
    mutating func addSlot(app: Int) { slotApps.insert(app) }

    /// The queue reports which apps have slots.
    mutating func reported(slots: [String], of routes: AppRoutes) {
        reportedSlots = Set(slots)
        slotApps = Set(reportedSlots.compactMap(routes.index(ofName:)))
    }

    // MARK: Claims

    var mayClaim: Bool { !isInDoubt && !isPaused }

    /// Returns the number of jobs to claim for this many places. Behind jobs that are set aside there may be jobs for few places.
    func claims(for places: Int) -> Int { looksAhead && places > 0 ? max(places, Self.lookAhead) : places }

    /// - Parameters:
    ///   - placed: whether an app took a job of the claim.
    ///   - givenBack: whether one was set aside.
    mutating func claimEnded(placed: Bool, givenBack: Bool) {
        if placed || givenBack { looksAhead = givenBack && !placed }
    }
}

/// The places that a turn offers to the lists: the number of jobs that could go out now. Rate limits reduce them: no more jobs
/// wait in the pools than half a second can send. The others stay in the list, where LLEN counts them.
struct ClaimBudget {
    /// A rate limit, as far as claims depend on it.
    struct Rate: Equatable {
        /// The most jobs that need to wait in the pools.
        var mostWaiting: Int
        var timePerPush: Duration
    }

    /// Whether an app has a side list, so that its places are not for the jobs of Q, or slots.
    private(set) var isDivided = false
    /// The places of all apps together, and by app; the latter empty while no app has a side list.
    private var free = 0
    private var ofApps: [Int] = []
    /// Those of apps without sessions, which are for Q alone.
    private var cold = 0
    /// The jobs of apps with places that no session has taken.
    private var waiting = 0
    /// The time at which enough of the waiting jobs are gone for another claim; `nil` if no limit holds back a claim.
    private(set) var nextRefill: Instant?

    /// Begins to count the places of a turn.
    ///
    /// - Parameter apps: the number of all apps.
    mutating func begin(isDivided: Bool, apps: Int) {
        self.isDivided = isDivided
        if isDivided || !ofApps.isEmpty { ofApps = [Int](repeating: 0, count: isDivided ? apps : 0) }
        (free, cold, waiting, nextRefill) = (0, 0, 0, nil)
    }

    /// Adds places for jobs of apps without sessions. Their first jobs open them.
    mutating func addCold(_ places: Int) {
        free += places
        cold = places
    }

    /// Adds the places of an app.
    ///
    /// - Parameters:
    ///   - limit: of its pool, in pushes per second.
    ///   - waiting: its jobs that no session has taken.
    mutating func add(_ places: Int, app: Int, limit: Double?, waiting: Int, now: Instant) {
        let allowed = self.places(places, under: limit.map(Rate.init), waiting: waiting, now: now)
        free += allowed
        if isDivided { ofApps[app] = allowed }
        // Jobs of an app without places wait for its streams.
        if places > 0 { self.waiting += waiting }
    }

    /// Reduces the places to what a limit of all apps together allows.
    mutating func limit(under rate: Rate?, now: Instant) {
        let all = free
        free = places(all, under: rate, waiting: waiting, now: now)
        if free >= all { return }
        // Each app keeps its share, rounded up: no app waits for the others.
        for app in ofApps.indices { ofApps[app] = (ofApps[app] * free + all - 1) / all }
    }

    /// Returns how many of `places` may be filled while `waiting` jobs wait for `rate`.
    ///
    /// The sessions do not report when they take a job: the next look is due when half of the waiting jobs are gone.
    private mutating func places(_ places: Int, under rate: Rate?, waiting: Int, now: Instant) -> Int {
        guard places > 0, let rate else { return places }
        let room = max(0, rate.mostWaiting - waiting)
        guard room < places, room < (rate.mostWaiting + 1) / 2 else { return min(places, room) }
        let again = now + max(.milliseconds(5), rate.timePerPush * ((waiting + 1) / 2))
        nextRefill = min(nextRefill ?? again, again)
        return room
    }

    /// Returns the number of jobs to claim from a list in which the apps for which `isAside` holds have side lists.
    func places(besides isAside: (Int) -> Bool) -> Int {
        if !isDivided { return free }
        var places = cold
        for app in ofApps.indices where ofApps[app] > 0 && !isAside(app) { places += ofApps[app] }
        return places
    }

    /// The places of one app. Only while the budget is divided.
    func places(of app: Int) -> Int { ofApps.indices.contains(app) ? ofApps[app] : 0 }

    /// Takes some of the places of one app.
    mutating func take(_ count: Int, of app: Int) {
        if ofApps.indices.contains(app) { ofApps[app] = max(0, ofApps[app] - count) }
    }

    /// Takes the places of one app.
    mutating func take(app: Int) -> Int {
        if !ofApps.indices.contains(app) { return 0 }
        defer { ofApps[app] = 0 }
        return ofApps[app]
    }

    /// Lists of lower priority get no more.
    mutating func close() {
        (free, cold) = (0, 0)
        for app in ofApps.indices { ofApps[app] = 0 }
    }
}

extension ClaimBudget.Rate {
    /// - Parameter pushesPerSecond: above 0, at most 1e9.
    init(pushesPerSecond: Double) {
        self.init(mostWaiting: max(1, Int(pushesPerSecond / 2)), timePerPush: .seconds(1 / pushesPerSecond))
    }
}
