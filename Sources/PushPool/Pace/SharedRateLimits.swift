public import Platform
internal import Synchronization

/// The rate limits of all pools of a daemon together: `max_rate` and `max_bandwidth`, and its share of `max_rate_fleet` and
/// `max_bandwidth_fleet`, which the owner leases.
public final class SharedRateLimits: Sendable {
    /// The shortest time between a refusal and the next request: several pushes share one wake-up, and delays may be made up
    /// for.
    static let shortestWait = Duration.milliseconds(2)

    private let state: Locked<RateLimits>
    /// Whether there is a limit; without one, callers take no lock.
    private let limits = Atomic<Bool>(false)
    /// Rings when `wantedLease` becomes a length.
    public let leaseWanted: WakeUp
    private let clock: @Sendable () -> Instant

    /// - Parameters: 0 means no limit; bits count payload only.
    public convenience init(pushesPerSecond: Double = 0, bitsPerSecond: Double = 0, leaseWanted: WakeUp = WakeUp()) {
        self.init(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond, leaseWanted: leaseWanted, clock: { .now })
    }

    init(
        pushesPerSecond: Double, bitsPerSecond: Double = 0, leaseWanted: WakeUp = WakeUp(),
        clock: @escaping @Sendable () -> Instant
    ) {
        self.leaseWanted = leaseWanted
        self.clock = clock
        let limits = RateLimits.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        state = Locked(RateLimits(limits: limits, now: clock()))
        self.limits.store(!limits.isNone, ordering: .relaxed)
    }

    /// Changes the limits from the next push on. Afterwards, call `SessionPool.limitsChanged()` for each pool.
    public func change(pushesPerSecond: Double, bitsPerSecond: Double) {
        let limits = RateLimits.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        let isLimiting = state.withLock { state in
            state.change(limits: limits, now: clock())
            return state.isLimiting
        }
        self.limits.store(isLimiting, ordering: .relaxed)
    }

    /// Changes the limits that all daemons of the list keep together. 0 means no limit.
    public func changeFleet(pushesPerSecond: Double, bitsPerSecond: Double) {
        let fleet = RateLimits.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        let isLimiting = state.withLock { state in
            state.change(fleet: fleet)
            return state.isLimiting
        }
        limits.store(isLimiting, ordering: .relaxed)
    }

    /// The length of the window to lease for the fleet's limits; `nil` if none is needed.
    public var wantedLease: Duration? { state.withLock { $0.wantedLease } }

    /// The fleet's limits allow this process alone to send in this window.
    public func leased(from start: Instant, length: Duration) { state.withLock { $0.leased(from: start, length: length) } }

    /// The number of jobs that need to wait in the pools; `nil` without a limit.
    public var holding: Int? { isLimiting ? state.withLock { $0.halfASecond } : nil }

    /// The time that `count` pushes take under the limits.
    public func duration(of count: Int) -> Duration { state.withLock { $0.duration(of: count) } }

    var isLimiting: Bool { limits.load(ordering: .relaxed) }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    ///
    /// - Parameter payload: in bytes.
    func admit(payload: Int) -> Instant? {
        let (opening, wantsLease) = state.withLock { state in
            let now = clock()
            let wanted = state.wantedLease
            let opening = state.admit(payload: payload, now: now).map { max($0, now + SharedRateLimits.shortestWait) }
            return (opening, wanted == nil && state.wantedLease != nil)
        }
        if wantsLease { leaseWanted.ring() }
        return opening
    }
}
