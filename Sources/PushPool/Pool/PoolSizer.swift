import Platform

/// Decides how many sessions a pool keeps open, and when a larger pool is advised. Knows no thread and no clock.
///
/// | strategy | size |
/// |---|---|
/// | fixed | always `least` |
/// | governed | `least` to `most`, in steps: one when looks agree for a while that the pool is full or too large |
/// | automatic | 1 to `most`, in one step to the size that demand and distance require |
///
/// It looks at the load at intervals and pauses after each change. It sleeps while it has its least size and was not blocked.
///
/// The timing of the governed strategy follows baobabus/go-apns. The automatic one grows when three looks in a row found pushes
/// waiting while every session was full, and a session's `Reach` is below the demand. If they still wait afterwards, the list has
/// more than the pool may hold: the next step is larger, unless the last one has not raised the rate. It shrinks when a smaller
/// pool would have been enough for a minute, to the largest size that this minute needed. A slow Redis leaves nothing waiting, so
/// the pool does not grow.
struct PoolSizer: Sendable {
    enum Strategy: Sendable, Equatable {
        case fixed
        case governed(PoolScale)
        case automatic
    }

    /// Limits and timing.
    struct Plan: Sendable, Equatable {
        var strategy: Strategy
        var least: Int
        var most: Int
        var interval = Duration.milliseconds(200)
        /// The number of consecutive looks that must agree.
        var sustainedLooks = 3
        /// The pause after a change, in which the rate of the changed pool becomes known.
        var settlePeriod = Duration.seconds(2)

        static func automatic(most: Int) -> Plan { Plan(strategy: .automatic, least: 1, most: max(1, most)) }

        init(strategy: Strategy, least: Int, most: Int) { (self.strategy, self.least, self.most) = (strategy, least, most) }

        init(_ settings: PoolSettings) {
            if settings.isAutomatic {
                self = .automatic(most: settings.mostSessions)
                return
            }
            let isGoverned = settings.mostSessions > settings.sessions && settings.scale != .constant
            strategy = isGoverned ? .governed(settings.scale) : .fixed
            (least, most) = (settings.sessions, isGoverned ? settings.mostSessions : settings.sessions)
            interval = settings.pollInterval
            sustainedLooks = max(1, Int((settings.minSustain / settings.pollInterval).rounded(.up)))
            settlePeriod = settings.settlePeriod
        }
    }

    /// The load of a pool in one look.
    struct Load: Equatable {
        /// Since the previous look, a notification waited while all sessions were full.
        var wasBlocked: Bool
        /// Streams in use plus waiting notifications.
        var busy = 0
        /// Streams that the open sessions offer.
        var capacity = 0
        /// Whether as many sessions are open as wanted: no dial is running or due.
        var isComplete: Bool
        /// Pushes per second.
        var rate = 0.0
        /// Notifications that no session has taken.
        var waiting = 0
        /// `nil` before the first round trip.
        var reach: Reach?
    }

    static let surplusDuration = Duration.seconds(60)
    /// The part of its capacity or reach that a smaller pool may have to use.
    private static let comfortable = 0.75
    /// The part of the added sessions' share by which a step must have raised the rate.
    private static let effect = 0.25

    private(set) var plan: Plan
    /// The wanted number of sessions.
    private(set) var target: Int
    /// The next look; `nil` while there is nothing to decide.
    private(set) var deadline: Instant?
    private var settlesUntil: Instant?
    private var blockedLooks = 0
    /// Governed: looks in a row whose load would have fit into a smaller pool.
    private var idleLooks = 0
    /// Automatic: the steps since a look last found no push waiting, and the rate and the size before the last of them.
    private var steps = (count: 0, rate: 0.0, size: 1)
    /// Automatic: the start of the time in which fewer sessions would have been enough, and the most that were needed in it.
    private var surplus: (since: Instant, needed: Int)?
    private var advisor = PoolAdvisor()

    /// - Parameter sessions: the present number, which stays within the plan.
    init(_ plan: Plan, sessions: Int, now: Instant) {
        self.plan = plan
        target = plan.strategy == .fixed ? plan.least : min(max(sessions, plan.least), plan.most)
        if target > plan.least { deadline = now + plan.interval }
    }

    /// The time of the next `tick`, unless the queue rings before.
    var nextTick: Instant? {
        var next = Earliest(deadline)
        next.consider(advisor.deadline)
        return next.instant
    }

    /// Time has passed, or pushes wait while all sessions are full: the queue rings when that begins, so that a look resets it.
    /// Returns the events for the owner; `target` may have changed.
    ///
    /// - Parameters:
    ///   - capacity: streams that the open sessions offer.
    ///   - isComplete: whether as many sessions are open as wanted.
    mutating func tick(_ queue: inout PushQueue, capacity: Int, isComplete: Bool, now: Instant) -> [PoolEvent] {
        var events: [PoolEvent] = []
        if let deadline, deadline <= now {
            let (before, load, figures) = (target, queue.look(), queue.figures(now: now))
            let seen = Load(
                wasBlocked: load.wasBlocked, busy: max(0, capacity - load.free) + load.waiting, capacity: capacity,
                isComplete: isComplete, rate: Double(queue.tally.rate(now: now)), waiting: load.waiting,
                reach: figures.reach(streams: capacity / max(1, figures.sessions)))
            if look(seen, now: now) { events.append(.resized(from: before, to: target)) }
        }
        if queue.wasBlocked { woke(now: now) }
        if let due = advisor.deadline, due <= now {
            let advice = advisor.look(queue.figures(now: now), rate: queue.tally.rate(now: now), plan, now: now)
            if let advice { events.append(.limited(advice)) }
            // While the sizer sleeps, nothing else resets it.
            if advisor.deadline == nil && deadline == nil { _ = queue.look() }
        }
        if queue.wasBlocked && advisor.deadline == nil { advisor.woke(queue.figures(now: now), now: now) }
        return events
    }

    /// Applies another plan. The number of sessions stays within it.
    mutating func adopt(_ plan: Plan, now: Instant) {
        if plan.strategy == .automatic && self.plan.strategy == .automatic {
            self.plan = plan
            target = min(target, plan.most)
            return
        }
        let isSettling = plan.strategy != .automatic && self.plan.strategy != .automatic
        let before = self
        self = PoolSizer(plan, sessions: target, now: now)
        advisor = before.advisor
        if isSettling { settlesUntil = before.settlesUntil }
    }

    /// A notification waits while all sessions are full: a look may be due.
    mutating func woke(now: Instant) {
        if deadline == nil && plan.strategy != .fixed { deadline = now + plan.interval }
    }

    /// Evaluates one look. Returns whether the target has changed.
    mutating func look(_ load: Load, now: Instant) -> Bool {
        let before = target
        blockedLooks = load.wasBlocked ? blockedLooks + 1 : 0
        switch plan.strategy {
        case .fixed: break
        case .governed(let scale): govern(load, scale, now: now)
        case .automatic:
            if !load.wasBlocked { steps.count = 0 }
            if let reach = load.reach { choose(load, reach, now: now) }
        }
        deadline = target == plan.least && blockedLooks == 0 ? nil : now + plan.interval
        return target != before
    }

    private func isSettled(now: Instant) -> Bool { settlesUntil.map { $0 <= now } ?? true }

    private mutating func govern(_ load: Load, _ scale: PoolScale, now: Instant) {
        let smaller = max(plan.least, scale.smaller(than: target))
        let room = Double(load.capacity) * Double(smaller) / Double(target) * Self.comfortable
        let isIdle = !load.wasBlocked && target > plan.least && Double(load.busy) <= room
        idleLooks = isIdle ? idleLooks + 1 : 0
        let before = target
        if isSettled(now: now) {
            if blockedLooks >= plan.sustainedLooks && load.isComplete {
                target = min(plan.most, scale.larger(than: target))
            } else if idleLooks >= plan.sustainedLooks {
                target = smaller
            }
        }
        if target == before { return }
        settlesUntil = now + plan.settlePeriod
        (blockedLooks, idleLooks) = (0, 0)
    }

    private mutating func choose(_ load: Load, _ reach: Reach, now: Instant) {
        if blockedLooks >= plan.sustainedLooks && load.isComplete && isSettled(now: now) && lastStepHelped(load.rate) {
            // The waiting pushes are to leave before the next look.
            let demand = load.rate + Double(load.waiting) / (plan.interval / .seconds(1))
            let needed = reach.sessions(for: demand * Double(steps.count + 1), atMost: plan.most)
            if needed > target {
                steps = (steps.count + 1, load.rate, target)
                (target, settlesUntil, surplus) = (needed, now + plan.settlePeriod, nil)
            }
        }
        let needed = reach.sessions(for: load.rate / Self.comfortable, atMost: plan.most)
        if load.wasBlocked || needed >= target {
            surplus = nil
        } else {
            let present = surplus ?? (now, needed)
            surplus = (present.since, max(present.needed, needed))
        }
        if let surplus, now - surplus.since >= Self.surplusDuration { (target, self.surplus) = (surplus.needed, nil) }
    }

    /// Whether the last step has raised the rate. Otherwise more sessions would not help either: a processor or APNs is slow.
    private func lastStepHelped(_ rate: Double) -> Bool {
        let growth = Double(target) / Double(steps.size) - 1
        return steps.count == 0 || rate >= steps.rate * (1 + growth * Self.effect)
    }
}

/// Advises a larger pool if windows or streams limit the present one and distance is the cause: after five seconds in which they
/// kept pushes waiting for more than half of the time, and at most every ten minutes.
struct PoolAdvisor: Sendable {
    static let interval = Duration.seconds(5)
    static let pause = Duration.seconds(600)
    /// With a shorter round trip, no larger pool is suggested: distance is not the limit.
    private static let shortestDistance = Duration.milliseconds(5)
    private static let mostSuggested = 100

    /// The next look; `nil` while nothing is blocked.
    private(set) var deadline: Instant?
    /// The blocked time at the beginning of the interval; `nil` during the pause.
    private var start: (blocked: Duration, at: Instant)?

    /// A notification waits while all sessions are full.
    mutating func woke(_ figures: PoolFigures, now: Instant) {
        if deadline == nil { begin(figures, now) }
    }

    private mutating func begin(_ figures: PoolFigures, _ now: Instant) {
        (start, deadline) = ((Self.blocked(figures), now), now + Self.interval)
    }

    private static func blocked(_ figures: PoolFigures) -> Duration {
        figures.blocked(by: .window) + figures.blocked(by: .streams)
    }

    /// Evaluates one look. Returns the advice, if there is one.
    ///
    /// - Parameter rate: pushes per second.
    mutating func look(_ figures: PoolFigures, rate: Int, _ plan: PoolSizer.Plan, now: Instant) -> PoolAdvice? {
        guard let start else {
            begin(figures, now)
            return nil
        }
        guard Self.blocked(figures) - start.blocked > (now - start.at) / 2 else {
            deadline = nil
            return nil
        }
        (self.start, deadline) = (nil, now + Self.pause)
        guard let distance = figures.shortestRoundTrip, distance >= Self.shortestDistance, figures.sessions >= plan.most,
            plan.most < Self.mostSuggested
        else { return nil }
        let suggestion = min(Self.mostSuggested, 4 * figures.sessions)
        return PoolAdvice(
            sessions: figures.sessions, roundTrip: distance, payload: figures.payload, pushesPerSecond: rate,
            suggestion: suggestion, suggestedPushesPerSecond: rate * suggestion / figures.sessions,
            isMaximum: plan.most > plan.least)
    }
}
