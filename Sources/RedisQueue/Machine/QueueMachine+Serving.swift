import Clocks

extension QueueMachine {
    private static let settleInterval = Duration.milliseconds(5)
    private static let claimPatience = Duration.milliseconds(2)
    /// Silence after which Redis is asked whether it is there: with the patience for an answer (`QueueSettings.timeout`) a dead
    /// connection is noticed within 3 s, also by a worker that has nothing to do.
    static let lookInterval = Duration.milliseconds(900)
    private static let promoteInterval = Duration.milliseconds(100)
    /// How long the claims of others wait for a job that must be alone, before they go on in spite of it.
    private static let lonelyPatience = Duration.seconds(30)
    /// So few jobs are no batch: their settlement goes out at once, if none is on its way.
    static let few = 32

    /// The steady state: beat, bury, promote, settle, claim, wait, each when it is due.
    mutating func serve(now: Instant) {
        if now >= nextBeat && !isBeatOut {
            counter += 1
            isBeatOut = true
            nextBeat = now + lease.beatInterval
            call(.beat(counter: counter))
        }
        if now >= nextLook && !isLookOut && !isBeatOut {
            isLookOut = true
            call(nextLookCall())
        }
        if !isReapOut, let dead = toReap.popLast() {
            isReapOut = true
            call(.reap(dead, first: nextID))
            nextID = nextID.advanced(by: QueueMachine.mostSuspects)
        }
        if isStopping { return leave(now: now) }
        if let promoteAt, now >= promoteAt, !isPromoteOut {
            isPromoteOut = true
            call(.promote)
        }
        settleIfDue(now: now)
        claimIfWorthIt(now: now)
        waitIfEmpty()
    }

    // MARK: Settling

    private var settlesAt: Instant? {
        var first = Earliest(settlements.gatheringSince)
        if !isClaimOut { first.consider(settlements.headsSince) }
        guard let since = first.instant else { return nil }
        if isFlushWanted || held.count <= QueueMachine.few && settlements.unconfirmed.isEmpty { return since }
        return since + QueueMachine.settleInterval
    }

    private mutating func settleIfDue(now: Instant) {
        // Jobs go back to the head of the list together with those of a claim that is out: they stood behind them.
        if let settlesAt, now >= settlesAt { settlements.seal(includingHeads: !isClaimOut && !isClaimFresh) }
        isFlushWanted = false
        sendSettlements()
    }

    mutating func sendSettlements() {
        for batch in settlements.takeUnsent() { call(.settle(batch)) }
    }

    // MARK: Claiming

    private var isClaimOut: Bool { claimOut > 0 || isRideArriving }

    /// Whether a job that must be alone waits, and others are still held.
    private var isKeepingAlone: Bool { recovered == .lonely && !held.isEmpty && mode == .atLeastOnce }

    /// Whether this list may hold jobs that could be claimed if there were places; a list of lower priority waits for it.
    func wantsPlaces(at now: Instant) -> Bool {
        switch phase {
        case .dialing, .registering, .reconciling: true
        case .serving: claimOut > 0 || mayFindJobs(at: now)
        case .resting, .leaving, .stopped: false
        }
    }

    /// The parts of a job that is cut go before what stands behind it. Who claimed on meanwhile would cut the next job, and so on:
    /// a list of jobs for thousands of devices would be in memory as a whole.
    private func isWorthClaiming(at now: Instant) -> Bool {
        claimOut == 0 && places > 0 && !settlements.isCutting && mayFindJobs(at: now)
    }

    private func mayFindJobs(at now: Instant) -> Bool {
        if isDoubted || held.hasLonely || isRideArriving { return false }
        if case .awaited(let until) = solitude, isKeepingAlone, now < until { return false }
        return recovered == .some || recovered == .lonely && held.isEmpty || waiting.isWorthClaiming(at: now)
    }

    /// The first instant at which the places are worth a round trip.
    private func claimsAt(_ now: Instant) -> Instant? {
        guard isWorthClaiming(at: now), let offeredAt else { return nil }
        let enough = min(QueueMachine.mostClaimed, max(25, (places + held.count) / 8))
        let isPolling = if case .polling = waiting.state { true } else { false }
        return claimsAtOnce || isPolling || recovered != .none || places >= enough
            ? offeredAt : offeredAt + QueueMachine.claimPatience
    }

    private mutating func claimIfWorthIt(now: Instant) {
        updateSolitude(now: now)
        guard let claimsAt = claimsAt(now), now >= claimsAt else { return }
        claimsAtOnce = false
        offeredAt = nil
        let count = min(places, QueueMachine.mostClaimed)
        switch mode {
        case .atLeastOnce:
            claimOut = count
            let room = max(0, QueueMachine.mostTwiceCrashed - held.countOfLevel(2))
            call(.claim(first: nextID, count: count, fromSecond: room))
            nextID = nextID.advanced(by: count)
        case .atMostOnce where recovered != .none:
            recovered = .none
            offeredAt = now
            call(.merge)
        case .atMostOnce:
            claimOut = popsOne ? 1 : count
            call(.pop(count: claimOut))
        }
    }

    private mutating func updateSolitude(now: Instant) {
        let next = now + QueueMachine.lonelyPatience
        switch solitude {
        case _ where !isKeepingAlone: solitude = .unneeded
        case .unneeded: solitude = .awaited(until: next)
        case .awaited(let until): if now >= until { solitude = .waived(until: next) }
        case .waived(let until): if now >= until { solitude = .awaited(until: next) }
        }
    }

    private mutating func waitIfEmpty() {
        guard waiting.state == .empty, !isClaimOut, !isWaitOut, places > 0, !isDoubted else { return }
        waiting.arm()
        isWaitOut = true
        effects.append(.wait(rideBehindWait()))
    }

    // MARK: Leaving

    /// Gives back what is held, has everything confirmed and the dead struck off that it knows of, and then takes leave: it may be
    /// the last worker for a long time. Suspects are the owner's to bury.
    private mutating func leave(now: Instant) {
        let isPopping = isWaitOut && mode == .atMostOnce
        if !isClaimOut && !isPopping && !held.isEmpty {
            let settling = settlements.settlingIDs
            if settling.count < held.count {
                for id in held.ids where !settling.contains(id) && held.level(of: id) < JobWindow.suspect {
                    settle(Settlement(id: id, effect: .release(toTail: false)), now: now)
                }
            }
        }
        settlements.seal(includingHeads: !isClaimOut)
        sendSettlements()
        let isBurying = isReapOut || !toReap.isEmpty
        if held.isEmpty && settlements.isEmpty && !isClaimOut && !isPopping && !isBurying { startLeaving() }
    }

    // MARK: Time

    /// Adds when `serve` has something to do.
    func considerServing(_ next: inout Earliest) {
        if !isBeatOut { next.consider(nextBeat) }
        if !isLookOut && !isBeatOut { next.consider(nextLook) }
        if !isPromoteOut { next.consider(promoteAt) }
        next.consider(settlesAt)
        switch solitude {
        case .unneeded: break
        case .awaited(let until), .waived(let until): next.consider(until)
        }
        if claimOut == 0 && places > 0 {
            if case .polling(let poll, _, _) = waiting.state, isWorthClaiming(at: poll) { next.consider(poll) }
            if let offeredAt { next.consider(claimsAt(offeredAt + QueueMachine.claimPatience)) }
        }
    }

    /// `delayed` has its first job due in so many milliseconds; -1: it is empty; below: not looked at.
    mutating func learned(due milliseconds: Int64, now: Instant) {
        if milliseconds == -1 {
            promoteAt = nil
        } else if milliseconds >= 0 {
            promoteAt = now + .milliseconds(milliseconds)
        }
    }

    /// What a promotion found. The next comes no sooner than its interval unless more was due than one could move.
    mutating func promoted(_ count: Int64, due milliseconds: Int64, now: Instant) {
        isPromoteOut = false
        learned(due: milliseconds, now: now)
        if count < 100, let next = promoteAt { promoteAt = max(next, now + QueueMachine.promoteInterval) }
    }
}
