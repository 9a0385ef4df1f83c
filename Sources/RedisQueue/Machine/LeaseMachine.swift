import Platform

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

    struct Dead: Equatable {
        var worker: String
        /// It is reaped only if its counter is still this one.
        var counter: Int64
        /// The time for which the counter stood still: it is reaped only if its own lease is not longer. `nil` if its process is
        /// gone.
        var silence: Duration?
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
    ) -> [Dead] {
        let isGap = lastObservation.map { now - $0 > beatInterval * 3 } ?? true
        lastObservation = now
        var seen: [String: Sighting] = [:]
        var dead: [Dead] = []
        for (worker, counter) in counters where worker != own {
            let before = sightings[worker].flatMap { $0.counter == counter && !isGap ? $0 : nil }
            let sighting = before ?? Sighting(counter: counter, since: now)
            seen[worker] = sighting
            // Returned each time: the call that should have reaped it may have been lost, or its own lease is longer.
            let silence = isGone(worker) ? nil : now - sighting.since
            if silence.map({ $0 >= lease }) ?? true { dead.append(Dead(worker: worker, counter: counter, silence: silence)) }
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
