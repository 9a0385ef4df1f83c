import Platform

/// Decides how many sessions a pool keeps open, between `Plan.least` and `Plan.most`. Knows no thread and no clock.
///
/// Its timing follows baobabus/go-apns: it looks at the load every `pollInterval`, acts when the looks of `minSustain` agree, and
/// pauses for `settlePeriod` after each change. Unlike go-apns, it sleeps while there is nothing to decide.
///
/// | state | event | next state |
/// |---|---|---|
/// | asleep at the least size | a notification waits while all sessions are full (`woke`) | looking |
/// | looking | enough looks in a row were blocked, all sessions are open | larger, settling |
/// | looking | enough looks in a row would fit into a smaller pool | smaller, settling |
/// | looking | the pool has its least size and was not blocked | asleep |
/// | settling | `settlePeriod` has passed | looking |
struct Governor: Sendable {
    /// Limits and timing. With `most` equal to `least` there is nothing to govern.
    struct Plan: Sendable, Equatable {
        var least: Int
        var most: Int
        var scale: PoolScale
        var pollInterval: Duration
        var minSustain: Duration
        var settlePeriod: Duration

        init(
            least: Int, most: Int, scale: PoolScale = .incremental(1), pollInterval: Duration = .milliseconds(200),
            minSustain: Duration = .seconds(2), settlePeriod: Duration = .seconds(5)
        ) {
            self.least = least
            self.most = most
            self.scale = scale
            self.pollInterval = pollInterval
            self.minSustain = minSustain
            self.settlePeriod = settlePeriod
        }

        init(_ settings: PoolSettings) {
            self.init(
                least: settings.sessions, most: settings.mostSessions, scale: settings.scale,
                pollInterval: settings.pollInterval, minSustain: settings.minSustain, settlePeriod: settings.settlePeriod)
        }

        var isGoverning: Bool { most > least && scale != .constant }

        /// The number of consecutive looks that must agree, at least one.
        var sustainedLooks: Int { max(1, Int((minSustain / pollInterval).rounded(.up))) }
    }

    /// The load of a pool in one look.
    struct Load: Equatable {
        /// Since the previous look, a notification waited while all sessions were full.
        var wasBlocked: Bool
        /// Streams in use plus waiting notifications.
        var busy: Int
        /// Streams that the open sessions offer.
        var capacity: Int
        /// Whether as many sessions are open as wanted: no dial is running or due.
        var isComplete: Bool
    }

    /// The highest load that a smaller pool may have after shrinking, as a part of its capacity.
    private static let comfortable = 0.75

    private(set) var plan: Plan
    /// The wanted number of sessions.
    private(set) var target: Int
    /// The next look; `nil` while there is nothing to decide.
    private(set) var deadline: Instant?
    private var settlesUntil: Instant?
    private var blockedLooks = 0
    private var idleLooks = 0

    init(_ plan: Plan) {
        self.plan = plan
        target = plan.least
    }

    init(_ settings: PoolSettings) { self.init(Plan(settings)) }

    /// Applies new settings. The number of sessions stays within them.
    ///
    /// - Parameter sessions: the present number, which an automatic pool may have chosen.
    mutating func change(_ plan: Plan, sessions: Int, now: Instant) {
        self.plan = plan
        target = plan.isGoverning ? min(max(sessions, plan.least), plan.most) : plan.least
        (blockedLooks, idleLooks) = (0, 0)
        deadline = target > plan.least ? now + plan.pollInterval : nil
    }

    /// A notification waits while all sessions are full: a look may be due.
    mutating func woke(now: Instant) {
        if deadline == nil && plan.isGoverning { deadline = now + plan.pollInterval }
    }

    /// Evaluates one look. Returns whether the target has changed.
    mutating func look(_ load: Load, now: Instant) -> Bool {
        count(load)
        let before = target
        if settlesUntil.map({ $0 <= now }) ?? true {
            if blockedLooks >= plan.sustainedLooks && load.isComplete {
                target = min(plan.most, plan.scale.larger(than: target))
            } else if idleLooks >= plan.sustainedLooks {
                target = smaller
            }
        }
        if target != before {
            settlesUntil = now + plan.settlePeriod
            (blockedLooks, idleLooks) = (0, 0)
        }
        deadline = target == plan.least && blockedLooks == 0 ? nil : now + plan.pollInterval
        return target != before
    }

    private var smaller: Int { max(plan.least, plan.scale.smaller(than: target)) }

    private mutating func count(_ load: Load) {
        if load.wasBlocked {
            (blockedLooks, idleLooks) = (blockedLooks + 1, 0)
            return
        }
        blockedLooks = 0
        let room = Double(load.capacity) * Double(smaller) / Double(target) * Governor.comfortable
        idleLooks = target > plan.least && Double(load.busy) <= room ? idleLooks + 1 : 0
    }
}

/// Chooses the number of sessions of a pool from demand and distance, from 1 to `most`. Knows no thread and no clock.
///
/// It grows in one step to the size that is needed: when three looks in a row found pushes waiting while every session was
/// full, and a session's `Reach` is below the demand. If they still wait afterwards, the list has more than the pool may hold:
/// the next step is larger, unless the last one has not raised the rate. It shrinks when a smaller pool would have been enough
/// for a minute, to the largest size that this minute needed. A slow Redis leaves nothing waiting, so the pool does not grow.
struct AutoSize: Sendable {
    /// The load of a pool in one look.
    struct Load: Equatable {
        /// Since the previous look, a notification waited while all sessions were full.
        var wasBlocked: Bool
        /// Whether as many sessions are open as wanted: no dial is running or due.
        var isComplete: Bool
        /// Pushes per second.
        var rate: Double
        /// Notifications that no session has taken.
        var waiting: Int
        /// `nil` before the first round trip.
        var reach: Reach?
    }

    static let interval = Duration.milliseconds(200)
    static let sustainedLooks = 3
    /// The pause after growing, in which the rate of the larger pool becomes known.
    static let settlePeriod = Duration.seconds(2)
    static let surplusDuration = Duration.seconds(60)
    /// The part of its reach that a smaller pool may have to use.
    private static let comfortable = 0.75

    private var most: Int
    /// The wanted number of sessions.
    private(set) var target: Int
    /// The next look; `nil` while there is nothing to decide.
    private(set) var deadline: Instant?
    private var blockedLooks = 0
    private var settlesUntil: Instant?
    /// The steps since a look last found no push waiting, and the rate and the size before the last of them.
    private var steps = (count: 0, rate: 0.0, size: 1)
    /// The part of the added sessions' share by which a step must have raised the rate.
    private static let effect = 0.25
    /// The start of the time in which fewer sessions would have been enough, and the most that were needed in it.
    private var surplus: (since: Instant, needed: Int)?

    /// - Parameter target: the number of sessions of a pool that becomes automatic.
    init(most: Int, target: Int = 1, now: Instant = .now) {
        self.most = max(1, most)
        self.target = min(max(1, target), self.most)
        if self.target > 1 { deadline = now + Self.interval }
    }

    /// Applies a new maximum.
    mutating func change(most: Int) {
        self.most = max(1, most)
        target = min(target, self.most)
    }

    /// A notification waits while all sessions are full: a look may be due.
    mutating func woke(now: Instant) {
        if deadline == nil { deadline = now + Self.interval }
    }

    /// Evaluates one look. Returns whether the target has changed.
    mutating func look(_ load: Load, now: Instant) -> Bool {
        let before = target
        blockedLooks = load.wasBlocked ? blockedLooks + 1 : 0
        if !load.wasBlocked { steps.count = 0 }
        if let reach = load.reach { decide(load, reach, now: now) }
        deadline = target == 1 && blockedLooks == 0 ? nil : now + Self.interval
        return target != before
    }

    private mutating func decide(_ load: Load, _ reach: Reach, now: Instant) {
        let isSettled = load.isComplete && settlesUntil.map { $0 <= now } ?? true
        if blockedLooks >= Self.sustainedLooks && isSettled && lastStepHelped(load.rate) {
            // The waiting pushes are to leave before the next look.
            let demand = load.rate + Double(load.waiting) / (Self.interval / .seconds(1))
            let needed = reach.sessions(for: demand * Double(steps.count + 1), atMost: most)
            if needed > target {
                steps = (steps.count + 1, load.rate, target)
                (target, settlesUntil, surplus) = (needed, now + Self.settlePeriod, nil)
            }
        }
        let needed = reach.sessions(for: load.rate / Self.comfortable, atMost: most)
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

/// Decides when a pool that windows or streams limit advises a larger one: after five seconds, and at most every ten minutes.
struct AdviceSchedule {
    static let interval = Duration.seconds(5)
    static let pause = Duration.seconds(600)

    /// The next look; `nil` while nothing is blocked.
    private(set) var deadline: Instant?
    /// The blocked time at the beginning of the interval; `nil` during the pause.
    private var start: (blocked: Duration, at: Instant)?

    /// A notification waits while all sessions are full.
    mutating func woke(blocked: Duration, now: Instant) {
        if deadline == nil { begin(blocked, now) }
    }

    private mutating func begin(_ blocked: Duration, _ now: Instant) {
        (start, deadline) = ((blocked, now), now + Self.interval)
    }

    /// Evaluates one look. Returns whether to advise: the pool was blocked for more than half of the interval.
    ///
    /// - Parameter blocked: the time for which windows or streams have blocked the pool so far.
    mutating func look(blocked: Duration, now: Instant) -> Bool {
        guard let start else {
            begin(blocked, now)
            return false
        }
        if blocked - start.blocked > (now - start.at) / 2 {
            (self.start, deadline) = (nil, now + Self.pause)
            return true
        }
        deadline = nil
        return false
    }
}
