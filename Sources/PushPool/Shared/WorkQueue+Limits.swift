import Clocks
internal import Threads

/// What the limits let go: those of all pools together, and this pool's own while APNs wants calm.
extension WorkQueue {
    /// A wait under the limits that is worth waking another session for, so that one alone does not get all that goes.
    private static let worthPassingOn = Duration.milliseconds(10)

    /// The limits are others now: who waits for the old ones asks again at once.
    func limitsChanged() {
        let toRing = state.withLock { state in
            state.timekeeper = nil
            return WorkQueue.sleepers(&state, enoughFor: state.waiting.count)
        }
        for wakeUp in toRing { wakeUp.ring() }
    }

    /// This pool alone makes so many pushes a second at most; `nil` lifts that.
    func limit(to pushesPerSecond: Int?) {
        state.withLock { state in
            guard let pushesPerSecond else {
                state.brake = nil
                return
            }
            let limit = Double(pushesPerSecond)
            if state.brake == nil { state.brake = RateLimiter(limit: limit, now: .now) }
            state.brake?.change(limit: limit, now: .now)
        }
        limitsChanged()
    }

    /// Pushes a second that sessions have taken lately.
    func rate(now: Instant) -> Int { state.withLock { $0.tally.rate(now: now) } }

    /// The limits let nothing go before `opening`: one session keeps that time for all, and has something to take then.
    static func wait(
        until opening: Instant, _ seat: Int, hasTaken: Bool, _ state: inout State
    ) -> ([WakeUp], Instant?) {
        if state.timekeeper != nil { return ([], nil) }
        if hasTaken && opening - .now >= worthPassingOn {
            let next = nextSleeper(after: seat, &state)
            if !next.isEmpty { return (next, nil) }
        }
        state.timekeeper = state.seats[seat].session
        return ([], opening)
    }

    /// As `move`, but only what the limits let go; and when they let the next one go, where that is why it stopped.
    func movePaced(
        _ share: Int, to batch: Ring<Notification>, avoiding session: SessionID, _ state: inout State
    ) -> (taken: Int, opening: Instant?) {
        var taken = 0
        var passed: [Notification] = []
        var opening: Instant?
        while taken < share, opening == nil, let notification = state.waiting.popFirst() {
            if notification.avoiding == session && state.seats.count > 1 {
                passed.append(notification)
                continue
            }
            opening = admit(payload: notification.payload.count, &state)
            if opening != nil {
                state.waiting.prepend(notification)
            } else {
                if notification.avoiding != nil { state.avoiders -= 1 }
                batch.append(notification)
                taken += 1
            }
        }
        for notification in passed.reversed() { state.waiting.prepend(notification) }
        return (taken, opening)
    }

    /// Lets a push go now and counts it, or says when to ask again.
    private func admit(payload: Int, _ state: inout State) -> Instant? {
        guard state.brake != nil else { return pacer.admit(payload: payload) }
        let now = Instant.now
        if let opening = state.brake?.opening(for: 1, now: now), opening > now {
            return max(opening, now + SharedRateLimits.shortestWait)
        }
        if pacer.isLimiting, let opening = pacer.admit(payload: payload) { return opening }
        state.brake?.count(1, now: now)
        return nil
    }
}
