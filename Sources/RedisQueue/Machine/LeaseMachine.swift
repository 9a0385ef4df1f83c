import Clocks

/// Who is dead, and whether others may think so of us. Knows no clock but the instants it is told, and never a time of day.
///
/// Each worker raises a counter in Redis with every beat. One whose counter stood still for a whole lease, all the while that we
/// looked, is dead. A gap in our own looking (Redis was away, we were stopped) starts every observation anew: during
/// it nobody could have raised a counter, or we could not have seen it.
struct LeaseMachine {
    private struct Sighting {
        var counter: Int64
        var since: Instant
    }

    struct Dead: Equatable {
        var worker: String
        /// It is reaped only if its counter is still this one.
        var counter: Int64
    }

    let lease: Duration
    /// Between two beats; each beat is also a look at the others.
    let beatInterval: Duration
    /// So long after the last contact the others may soon take us for dead: 60 % of a lease.
    private let patience: Duration
    private let own: String
    private var sightings: [String: Sighting] = [:]
    private var lastLook: Instant?
    private(set) var lastContact: Instant?

    init(lease: Duration, own: String) {
        self.lease = lease
        beatInterval = lease / 5
        patience = lease * 3 / 5
        self.own = own
    }

    /// Takes in all workers' counters and returns those that are to be reaped.
    ///
    /// - Parameter isGone: whether a worker's process is certainly gone, by its name alone.
    mutating func looked(
        _ counters: [(worker: String, counter: Int64)], at now: Instant, isGone: (String) -> Bool
    ) -> [Dead] {
        let isGap = lastLook.map { now - $0 > beatInterval * 3 } ?? true
        lastLook = now
        var seen: [String: Sighting] = [:]
        var dead: [Dead] = []
        for (worker, counter) in counters where worker != own {
            let before = sightings[worker].flatMap { $0.counter == counter && !isGap ? $0 : nil }
            let sighting = before ?? Sighting(counter: counter, since: now)
            seen[worker] = sighting
            // Each time anew: the call that should have reaped it may have been lost.
            if now - sighting.since >= lease || isGone(worker) { dead.append(Dead(worker: worker, counter: counter)) }
        }
        sightings = seen
        return dead
    }

    /// Redis has our beat, which was sent at this instant: from then on the others wait a whole lease.
    mutating func beatConfirmed(sentAt: Instant) {
        lastContact = lastContact.map { max($0, sentAt) } ?? sentAt
    }

    /// From when on nothing more may be put on the wire. `nil` before the first contact.
    var doubtAt: Instant? { lastContact.map { $0 + patience } }
}
