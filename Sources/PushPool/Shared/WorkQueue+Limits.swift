internal import Platform

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
            let now = clock()
            if state.calmLimiter == nil { state.calmLimiter = RateLimiter(limit: limit, now: now) }
            state.calmLimiter?.change(limit: limit, now: now)
        }
        limitsChanged()
    }

    /// Returns the pushes per second that sessions have taken recently.
    func rate(now: Instant) -> Int { state.withLock { $0.tally.rate(now: now) } }

    /// The reason why limits stopped a take.
    struct Pause {
        /// The time to ask again.
        var opening: Instant
        /// Whether pushes that avoid the session were left to another one.
        var hasPassedOver: Bool
    }

    /// Handles limits that admit nothing for now: one session keeps the time for all. It passes this on after a long wait, and if
    /// it has left pushes to others: pushes wake no session meanwhile.
    func wait(
        for pause: Pause, _ consumer: Int, hasTaken: Bool, _ state: inout State
    ) -> ([WakeUp], Instant?) {
        if state.timekeeper != nil { return ([], nil) }
        // A session that has taken nothing keeps the time, so that two sessions do not wake each other until the opening.
        if hasTaken && (pause.hasPassedOver || pause.opening - clock() >= WorkQueue.worthPassingOn) {
            let next = WorkQueue.nextSleeper(after: consumer, &state)
            if !next.isEmpty { return (next, nil) }
        }
        state.timekeeper = state.consumers[consumer].session
        return ([], pause.opening)
    }

    /// Moves notifications as `move` does, as far as the limits admit them. Returns the pause if a limit stopped it.
    func movePaced(
        _ room: inout Room, to batch: Ring<Notification>, avoiding session: SessionID, _ state: inout State
    ) -> Pause? {
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
        return opening.map { Pause(opening: $0, hasPassedOver: !passed.isEmpty) }
    }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    private func admit(payload: Int, _ state: inout State) -> Instant? {
        guard state.calmLimiter != nil else { return rateLimits.admit(payload: payload) }
        let now = clock()
        if let opening = state.calmLimiter?.opening(for: 1, now: now), opening > now {
            return max(opening, now + SharedRateLimits.shortestWait)
        }
        if rateLimits.isLimiting, let opening = rateLimits.admit(payload: payload) { return opening }
        state.calmLimiter?.count(1, now: now)
        return nil
    }
}
