import Clocks

/// The claim that rides behind the wait.
///
/// Redis leaves what follows a blocking command in its buffer until that ends, and then runs it before it writes any answer
/// (`processUnblockedClients` in its source). So the first job for an idle worker is claimed in the moment in which it is pushed, and
/// word and job come together: two ways between sleeping processes fewer. A wait that was in vain is followed by a claim in vain.
extension QueueMachine {
    /// What follows an answer that may be lost is asked after so long.
    private static let missPatience = Duration.milliseconds(250)

    /// The wait is over, and its claim's answer on the way: another claim now would want the same places.
    var isRideArriving: Bool { isRideOut && !isWaitOut }

    /// The claim for the wait that begins now; none while claims have reason to wait. Few jobs: the next claim knows the places of its
    /// own time.
    mutating func rideBehindWait() -> Call? {
        guard mode == .atLeastOnce, recovered == .none, !settlements.isCutting, !held.hasLonely else { return nil }
        let count = min(places, QueueMachine.few)
        let first = nextID
        nextID = nextID.advanced(by: count)
        (isRideOut, missedRides) = (true, 0)
        let room = max(0, QueueMachine.mostTwiceCrashed - held.countOfLevel(2))
        return .ride(first: first, count: count, fromSecond: room, after: settlements.confirmed)
    }

    mutating func rideArrived() {
        isRideOut = false
        claimsAtOnce = false
    }

    // MARK: An answer that is lost

    /// A reply that never comes leaves jobs in the hash of which this worker knows nothing, and a wait has long patience. So while one is
    /// out every second look counts them.
    mutating func nextLookCall() -> Call {
        if !isRideOut { return .look }
        defer { countsHeld.toggle() }
        return countsHeld || missedRides > 0 ? .countHeld : .look
    }

    /// What stands there and is not known is on its way; and lost when it still is not known a while later. The new connection compares
    /// and fetches it.
    mutating func counted(_ reply: RedisReply, now: Instant) -> Bool {
        guard let count = reply.integer else { return false }
        isLookOut = false
        guard isRideOut, claimOut == 0, count > Int64(held.count + foreignFields) else {
            missedRides = 0
            return true
        }
        missedRides += 1
        nextLook = now + QueueMachine.missPatience
        if missedRides > 1 { lost("jobs were claimed and did not come: the second connection is dead", now: now) }
        return true
    }
}
