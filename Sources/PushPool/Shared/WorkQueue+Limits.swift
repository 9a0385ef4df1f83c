import SystemTime
internal import Threads

/// Applies rate limits: those of all pools together, and the pool's own after ENHANCE_YOUR_CALM.
extension WorkQueue {
    /// The shortest wait that is passed on to another session, so that one session does not send everything.
    private static let worthPassingOn = Duration.milliseconds(10)

    /// Wakes sessions that wait under limits which have changed.
    func limitsChanged() {
        let toRing = state.withLock { state in
            state.timekeeper = nil
            return WorkQueue.sleepers(&state, enoughFor: state.waiting.count)
        }
        for wakeUp in toRing { wakeUp.ring() }
    }

    /// Limits this pool alone to this many pushes per second; `nil` removes the limit.
    func limit(to pushesPerSecond: Int?) {
        state.withLock { state in
            guard let pushesPerSecond else {
                state.calmLimiter = nil
                return
            }
            let limit = Double(pushesPerSecond)
            if state.calmLimiter == nil { state.calmLimiter = RateLimiter(limit: limit, now: .now) }
            state.calmLimiter?.change(limit: limit, now: .now)
        }
        limitsChanged()
    }

    /// Returns the pushes per second that sessions have taken recently.
    func rate(now: Instant) -> Int { state.withLock { $0.tally.rate(now: now) } }

    /// Handles limits that admit nothing before `opening`: one session keeps the time for all.
    static func wait(
        until opening: Instant, _ consumer: Int, hasTaken: Bool, _ state: inout State
    ) -> ([WakeUp], Instant?) {
        if state.timekeeper != nil { return ([], nil) }
        if hasTaken && opening - .now >= worthPassingOn {
            let next = nextSleeper(after: consumer, &state)
            if !next.isEmpty { return (next, nil) }
        }
        state.timekeeper = state.consumers[consumer].session
        return ([], opening)
    }

    /// Moves notifications as `move` does, as far as the limits admit them. Returns the next opening if a limit stopped it.
    func movePaced(
        _ room: inout Room, to batch: Ring<Notification>, avoiding session: SessionID, _ state: inout State
    ) -> Instant? {
        var passed: [Notification] = []
        var opening: Instant?
        let avoids = state.avoiders > 0 && WorkQueue.hasAlternative(to: session, state)
        while !room.isEmpty, opening == nil, let notification = state.waiting.popFirst() {
            if avoids && notification.avoiding == session {
                passed.append(notification)
                continue
            }
            opening = admit(payload: notification.payload.count, &state)
            if opening != nil {
                state.waiting.prepend(notification)
            } else {
                if notification.avoiding != nil { state.avoiders -= 1 }
                room.spend(payload: notification.payload.count)
                batch.append(notification)
            }
        }
        for notification in passed.reversed() { state.waiting.prepend(notification) }
        return opening
    }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    private func admit(payload: Int, _ state: inout State) -> Instant? {
        guard state.calmLimiter != nil else { return rateLimits.admit(payload: payload) }
        let now = Instant.now
        if let opening = state.calmLimiter?.opening(for: 1, now: now), opening > now {
            return max(opening, now + SharedRateLimits.shortestWait)
        }
        if rateLimits.isLimiting, let opening = rateLimits.admit(payload: payload) { return opening }
        state.calmLimiter?.count(1, now: now)
        return nil
    }
}
