import Clocks

/// How many sessions a pool keeps open: more when its sessions are what everything waits for, fewer again when fewer would do.
///
/// Its timing is that of baobabus/go-apns: the load is looked at every `pollInterval`; what `minSustain` worth of looks agree on is
/// done, unless the last change is not yet `settlePeriod` ago. Unlike there, nobody looks while there is nothing to decide: the
/// first push that waits for a full pool wakes it, and it goes back to sleep at its least size. Knows no thread and no clock.
struct Governor: Sendable {
    /// Beyond `least` sessions; nothing to govern where `most` is not above it.
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

        /// Looks that must agree, one at least.
        var sustainedLooks: Int { max(1, Int((minSustain / pollInterval).rounded(.up))) }
    }

    /// What is seen of a pool in one look.
    struct Load: Equatable {
        /// Since the look before, something waited though all sessions were full.
        var wasBlocked: Bool
        /// Streams in use and pushes that wait.
        var busy: Int
        /// Streams that there could be.
        var capacity: Int
        /// As many sessions are open as there should be: no dial is under way, and none waits for its time.
        var isComplete: Bool
    }

    /// The part of the fewer sessions that what is under way may take up, or else they would be too few at once.
    private static let comfortable = 0.75

    private(set) var plan: Plan
    /// Sessions that there should be.
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

    /// Other settings: the number of sessions stays, as far as they allow it.
    mutating func change(_ plan: Plan, now: Instant) {
        self.plan = plan
        target = plan.isGoverning ? min(max(target, plan.least), plan.most) : plan.least
        (blockedLooks, idleLooks) = (0, 0)
        deadline = target > plan.least ? now + plan.pollInterval : nil
    }

    /// Something waits though all sessions are full: it may be time to look.
    mutating func woke(now: Instant) {
        if deadline == nil && plan.isGoverning { deadline = now + plan.pollInterval }
    }

    /// A look at the load. Returns whether the target has changed.
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
