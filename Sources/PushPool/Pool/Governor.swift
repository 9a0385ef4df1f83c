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
