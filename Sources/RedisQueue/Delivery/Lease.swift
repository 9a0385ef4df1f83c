import Platform

/// The heartbeat of this worker, the watch over the others, and the test whether Redis responds. It reads no clock.
///
/// Each worker raises a counter in Redis with every beat. A worker is dead when its counter stood still for a whole lease (its
/// own or that of this worker, whichever is longer) during which this worker looked at it. A gap in these looks (Redis was away,
/// this process was stopped) restarts every observation: during the gap no worker could have raised its counter, or this one
/// could not have seen it.
struct Lease {
    private struct Sighting {
        var counter: Int64
        var since: Instant
    }

    /// Silence after which Redis is inspected. With the limit for a reply (`QueueSettings.timeout`) a dead connection is noticed
    /// within 3 s, also by an idle worker.
    private static let inspectionInterval = Duration.milliseconds(900)
    /// The longest time between two looks at the pauses while there is one.
    private static let pauseInterval = Duration.seconds(1)

    private let lease: Duration
    /// The time between two beats. Each beat also reads the counters of the others. Of a worker without a guard, only the beat
    /// reads the pauses.
    private let beatInterval: Duration
    /// Observations further apart restart.
    private let longestGap: Duration
    /// The time after the last contact from which others may soon consider this worker dead: 60 % of a lease.
    private let doubtDelay: Duration
    /// Whether others can take over the jobs of this worker.
    private let isGuarded: Bool
    /// The name of this worker.
    private var own: String
    private var counter: Int64 = 0
    private var nextBeat: Instant
    private var nextInspection: Instant
    private var sightings: [String: Sighting] = [:]
    private var lastObservation: Instant?
    /// The dead workers, whose jobs are to be taken over.
    private(set) var dead: [Takeover.Dead] = []
    /// When the last confirmed beat was sent.
    private(set) var lastContact: Instant?
    /// Contact was lost for so long that others may take over the jobs.
    private(set) var isInDoubt = false
    /// Whether a call awaits its reply.
    private var (isBeating, isInspecting, isTakingOver) = (false, false, false)

    init(lease: Duration, own: String, isGuarded: Bool, now: Instant) {
        (self.lease, self.own, self.isGuarded) = (lease, own, isGuarded)
        beatInterval = isGuarded ? lease / 5 : min(lease / 5, .seconds(1))
        longestGap = lease / 5 * 3
        doubtDelay = lease * 3 / 5
        (nextBeat, nextInspection) = (now, now)
    }

    mutating func renamed(to worker: String) { own = worker }

    mutating func beginServing(now: Instant) {
        isInDoubt = false
        nextBeat = now + beatInterval
    }

    mutating func connectionLost() {
        dead = []
        (isBeating, isInspecting, isTakingOver) = (false, false, false)
    }

    // MARK: Beats

    /// The heartbeat counter, raised.
    mutating func nextCounter() -> Int64 {
        counter += 1
        return counter
    }

    /// The counter of the beat that is due, if one is. Also while the reply to an earlier beat waits behind a large reply: the
    /// beat itself arrives in time.
    mutating func nextBeat(now: Instant) -> Int64? {
        if now < nextBeat { return nil }
        nextBeat = now + beatInterval
        isBeating = true
        return nextCounter()
    }

    /// Redis has the beat or registration that was sent at this instant: from then on the others wait a whole lease.
    ///
    /// - Returns: whether the lease is safe again after it was in doubt.
    mutating func confirmed(sentAt: Instant, now: Instant) -> Bool {
        isBeating = false
        lastContact = lastContact.map { max($0, sentAt) } ?? sentAt
        return isInDoubt && doubtAt.map { now < $0 } ?? false
    }

    /// Beats soon while there is a pause: the beat also reads the pauses, and a resumed list is claimed from soon.
    mutating func watch(_ pauses: [QueuePause], now: Instant) {
        if pauses.isEmpty { return }
        let left = pauses.compactMap(\.left).min() ?? Lease.pauseInterval
        nextBeat = min(nextBeat, now + min(Lease.pauseInterval, left))
    }

    // MARK: Doubt

    private var doubtAt: Instant? { lastContact.map { $0 + doubtDelay } }

    /// The time from which nothing more may be put on the wire.
    var doubtDeadline: Instant? { isInDoubt || !isGuarded ? nil : doubtAt }

    /// Returns true when the lease comes into doubt with this call.
    mutating func doubtIfDue(now: Instant) -> Bool { doubtAt.map { now >= $0 } ?? false ? doubt() : false }

    /// Returns true when the lease comes into doubt with this call.
    mutating func doubt() -> Bool {
        if isInDoubt || !isGuarded { return false }
        isInDoubt = true
        return true
    }

    // MARK: Inspections

    /// Redis has replied on the first connection.
    mutating func replied(now: Instant) { nextInspection = now + Lease.inspectionInterval }

    mutating func startsInspection(now: Instant) -> Bool {
        if isBeating || isInspecting || now < nextInspection { return false }
        isInspecting = true
        return true
    }

    /// - Parameter pause: until the next one; `nil` for the usual time.
    mutating func inspected(next pause: Duration?, now: Instant) {
        isInspecting = false
        if let pause { nextInspection = now + pause }
    }

    /// The next beat or inspection.
    var deadline: Instant { isBeating || isInspecting ? nextBeat : min(nextBeat, nextInspection) }

    // MARK: Other workers

    /// Takes in the counters of all workers.
    ///
    /// - Parameter isGone: whether a worker's process is certainly gone, by its name alone.
    mutating func observed(_ counters: Lua.Counters, now: Instant, isGone: (String) -> Bool) {
        let isGap = lastObservation.map { now - $0 > longestGap } ?? true
        lastObservation = now
        var seen: [String: Sighting] = [:]
        dead = []
        for (worker, counter) in counters where worker != own {
            let before = sightings[worker].flatMap { $0.counter == counter && !isGap ? $0 : nil }
            let sighting = before ?? Sighting(counter: counter, since: now)
            seen[worker] = sighting
            // Named each time: the call that should have taken over its jobs may have been lost, or its own lease is longer.
            let silence = isGone(worker) ? nil : now - sighting.since
            if silence.map({ $0 >= lease }) ?? true {
                dead.append(Takeover.Dead(worker: worker, counter: counter, silence: silence))
            }
        }
        sightings = seen
    }

    /// The other workers, as of the last beat.
    var others: [String] { sightings.keys.sorted() }

    /// The worker whose jobs are taken over next, one worker at a time.
    mutating func nextDead() -> Takeover.Dead? {
        if isTakingOver { return nil }
        let next = dead.popLast()
        isTakingOver = next != nil
        return next
    }

    mutating func takenOver() { isTakingOver = false }

    /// Whether known dead workers still have jobs.
    var hasDead: Bool { isTakingOver || !dead.isEmpty }
}
