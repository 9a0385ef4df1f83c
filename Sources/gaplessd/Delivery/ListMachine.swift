import Platform
import RedisQueue

/// One list: whether Redis serves it, and when it may be claimed from.
struct ListState {
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
    /// The apps whose side lists have jobs, as the queue last reported.
    var asides: Set<String> = []
    /// The last claim found only jobs that were set aside.
    private var looksAhead = false

    init(name: String) { self.name = name }

    mutating func connected() { (isConnected, isInDoubt) = (true, false) }
    mutating func disconnected() { isConnected = false }
    mutating func leaseInDoubt() { isInDoubt = true }
    mutating func stopped() { isStopped = true }

    var mayClaim: Bool { !isInDoubt && !isPaused }

    /// - Parameter isWhole: whether the pauses stop every app.
    mutating func paused(_ pauses: [PauseNote], isWhole: Bool) {
        (self.pauses, isPaused) = (pauses, isWhole)
    }

    /// - Parameters:
    ///   - placed: whether an app took a job of the claim.
    ///   - givenBack: whether one was set aside.
    mutating func claimEnded(placed: Bool, givenBack: Bool) {
        if placed || givenBack { looksAhead = givenBack && !placed }
    }

    /// Returns the number of jobs to claim for this many places. Behind jobs that are set aside there may be jobs for few places.
    func claims(for places: Int) -> Int { looksAhead && places > 0 ? max(places, Self.lookAhead) : places }
}

/// The places that a turn offers to the lists: the number of jobs that could go out now.
struct FreePlaces {
    /// Of all apps together.
    private var free = 0
    /// By app; empty while no app has a side list.
    private var ofApps: [Int] = []
    /// Whether an app has a side list: then its places are not for the jobs of Q.
    var isDivided = false

    /// Adds the places of the next app.
    mutating func add(_ places: Int) {
        free += places
        if isDivided { ofApps.append(places) }
    }

    /// Reduces the places to what a limit of all apps together allows.
    mutating func limit(_ allowed: (Int) -> Int) {
        let all = free
        free = allowed(all)
        if free >= all { return }
        // Each app keeps its share, rounded up: no app waits for the others.
        for app in ofApps.indices { ofApps[app] = (ofApps[app] * free + all - 1) / all }
    }

    /// Returns the number of jobs to claim from a list in which the apps for which `isAside` holds have side lists.
    func all(besides isAside: (Int) -> Bool) -> Int {
        if !isDivided { return free }
        var places = 0
        for app in ofApps.indices where !isAside(app) { places += ofApps[app] }
        return places
    }

    /// Takes the places of one app.
    mutating func take(app: Int) -> Int {
        if !ofApps.indices.contains(app) { return 0 }
        defer { ofApps[app] = 0 }
        return ofApps[app]
    }

    /// Lists of lower priority get no more.
    mutating func close() {
        free = 0
        for app in ofApps.indices { ofApps[app] = 0 }
    }
}

/// Keeps claims within the rate limits: no more jobs wait in the pools than half a second can send. The others stay in the
/// list, where LLEN counts them.
struct ClaimBudget {
    /// A rate limit, as far as claims depend on it.
    struct Rate: Equatable {
        /// The most jobs that need to wait in the pools.
        var mostWaiting: Int
        var timePerPush: Duration

        init(mostWaiting: Int, timePerPush: Duration) {
            self.mostWaiting = mostWaiting
            self.timePerPush = timePerPush
        }

        init(pushesPerSecond: Int) {
            self.init(mostWaiting: max(1, pushesPerSecond / 2), timePerPush: .seconds(1) / pushesPerSecond)
        }
    }

    /// The time at which enough of the waiting jobs are gone for another claim; `nil` if no limit holds back a claim.
    private(set) var nextRefill: Instant?

    mutating func reset() { nextRefill = nil }

    /// Returns how many of `places` may be filled while `waiting` jobs wait for `rate`.
    ///
    /// The sessions do not report when they take a job: the next look is due when half of the waiting jobs are gone.
    mutating func places(_ places: Int, under rate: Rate?, waiting: Int, now: Instant) -> Int {
        guard places > 0, let rate else { return places }
        let room = max(0, rate.mostWaiting - waiting)
        guard room < places, room < (rate.mostWaiting + 1) / 2 else { return min(places, room) }
        let again = now + max(.milliseconds(5), rate.timePerPush * ((waiting + 1) / 2))
        nextRefill = min(nextRefill ?? again, again)
        return room
    }
}
