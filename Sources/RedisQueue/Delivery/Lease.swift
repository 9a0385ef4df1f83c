import Platform

/// The heartbeat of this worker, the watch over the others, and the test whether Redis responds.
struct Liveness {
    /// Silence after which Redis is inspected. With the limit for a reply (`QueueSettings.timeout`) a dead connection is noticed
    /// within 3 s, also by an idle worker.
    private static let inspectionInterval = Duration.milliseconds(900)

    /// The longest time between two looks at the pauses while there is one.
    private static let pauseInterval = Duration.seconds(1)

    private var lease: LeaseMachine
    private var counter: Int64 = 0
    private var nextBeat: Instant
    private var nextInspection: Instant
    private var toReap: [Reap.Dead] = []
    /// Contact was lost for so long that others may take over the jobs.
    private(set) var isInDoubt = false
    private let isGuarded: Bool

    /// - Parameter mode: `at_most_once` holds nothing in Redis that others could take over.
    init(lease: Duration, own: String, mode: QueueSettings.DeliveryMode, now: Instant) {
        self.lease = LeaseMachine(lease: lease, own: own)
        isGuarded = mode == .atLeastOnce
        nextBeat = now
        nextInspection = now
    }

    /// With `at_most_once` only the beat reads the pauses.
    private var beatInterval: Duration { isGuarded ? lease.beatInterval : min(lease.beatInterval, .seconds(1)) }

    var lastContact: Instant? { lease.lastContact }
    var isReaping: Bool { !toReap.isEmpty }

    mutating func renamed(to worker: String) { lease.own = worker }

    /// The heartbeat counter, raised.
    mutating func nextCounter() -> Int64 {
        counter += 1
        return counter
    }

    mutating func beginServing(now: Instant) {
        isInDoubt = false
        nextBeat = now + beatInterval
    }

    mutating func connectionLost() { toReap = [] }

    /// Redis has replied on the first connection.
    mutating func replied(now: Instant) { nextInspection = now + Liveness.inspectionInterval }

    mutating func inspect(after pause: Duration, now: Instant) { nextInspection = now + pause }

    mutating func beatConfirmed(sentAt: Instant) { lease.beatConfirmed(sentAt: sentAt) }

    mutating func observed(_ counters: Lua.Counters, now: Instant, isGone: (String) -> Bool) {
        toReap = lease.observed(counters, at: now, isGone: isGone)
    }

    /// Whether the lease is safe again after it was in doubt.
    func isRestored(at now: Instant) -> Bool { isInDoubt && lease.doubtAt.map { now < $0 } ?? false }

    /// Returns true when the lease comes into doubt with this call.
    mutating func doubtIfDue(now: Instant) -> Bool { lease.doubtAt.map { now >= $0 } ?? false ? doubt() : false }

    /// Returns true when the lease comes into doubt with this call.
    mutating func doubt() -> Bool {
        if isInDoubt || !isGuarded { return false }
        isInDoubt = true
        return true
    }

    mutating func takeDead() -> Reap.Dead? { toReap.popLast() }

    /// The counter of the beat that is due, if one is.
    mutating func nextBeat(now: Instant) -> Int64? {
        if now < nextBeat { return nil }
        nextBeat = now + beatInterval
        return nextCounter()
    }

    /// Beats soon while there is a pause: the beat also reads the pauses, and a resumed list is claimed from soon.
    mutating func watch(_ pauses: [QueuePause], now: Instant) {
        if pauses.isEmpty { return }
        let left = pauses.compactMap(\.left).min() ?? Liveness.pauseInterval
        nextBeat = min(nextBeat, now + min(Liveness.pauseInterval, left))
    }

    func isInspectionDue(now: Instant) -> Bool { now >= nextInspection }

    var doubtDeadline: Instant? { isInDoubt || !isGuarded ? nil : lease.doubtAt }

    /// The next beat or inspection.
    func deadline(_ outstanding: OutstandingCalls) -> Instant? {
        var next = Earliest()
        next.consider(nextBeat)
        if outstanding.isDisjoint(with: [.beat, .inspection]) { next.consider(nextInspection) }
        return next.instant
    }
}

/// Decides which other workers are dead, and whether others may consider this one dead. It reads no clock.
///
/// Each worker raises a counter in Redis with every beat. A worker is dead when its counter stood still for a whole lease (its
/// own or that of this worker, whichever is longer) during which this worker looked at it. A gap in these looks (Redis was away,
/// this process was stopped) restarts every observation: during the gap no worker could have raised its counter, or this one
/// could not have seen it.
struct LeaseMachine {
    private struct Sighting {
        var counter: Int64
        var since: Instant
    }

    let lease: Duration
    /// The time between two beats. Each beat also reads the counters of the others.
    let beatInterval: Duration
    /// The time after the last contact from which others may soon consider this worker dead: 60 % of a lease.
    private let doubtDelay: Duration
    /// The name of this worker.
    var own: String
    private var sightings: [String: Sighting] = [:]
    private var lastObservation: Instant?
    private(set) var lastContact: Instant?

    init(lease: Duration, own: String) {
        self.lease = lease
        beatInterval = lease / 5
        doubtDelay = lease * 3 / 5
        self.own = own
    }

    /// Takes in the counters of all workers and returns the workers to reap.
    ///
    /// - Parameter isGone: whether a worker's process is certainly gone, by its name alone.
    mutating func observed(
        _ counters: [(worker: String, counter: Int64)], at now: Instant, isGone: (String) -> Bool
    ) -> [Reap.Dead] {
        let isGap = lastObservation.map { now - $0 > beatInterval * 3 } ?? true
        lastObservation = now
        var seen: [String: Sighting] = [:]
        var dead: [Reap.Dead] = []
        for (worker, counter) in counters where worker != own {
            let before = sightings[worker].flatMap { $0.counter == counter && !isGap ? $0 : nil }
            let sighting = before ?? Sighting(counter: counter, since: now)
            seen[worker] = sighting
            // Returned each time: the call that should have reaped it may have been lost, or its own lease is longer.
            let silence = isGone(worker) ? nil : now - sighting.since
            if silence.map({ $0 >= lease }) ?? true { dead.append(Reap.Dead(worker: worker, counter: counter, silence: silence)) }
        }
        sightings = seen
        return dead
    }

    /// Redis has the beat that was sent at this instant: from then on the others wait a whole lease.
    mutating func beatConfirmed(sentAt: Instant) {
        lastContact = lastContact.map { max($0, sentAt) } ?? sentAt
    }

    /// The time from which nothing more may be put on the wire. `nil` before the first contact.
    var doubtAt: Instant? { lastContact.map { $0 + doubtDelay } }
}
