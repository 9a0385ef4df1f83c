import Platform

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
