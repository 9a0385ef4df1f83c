import Clocks
internal import Synchronization
internal import Threads

/// The rate limits of all pools of a daemon together: `max_rate` and `max_bandwidth`.
public final class SharedRateLimits: Sendable {
    /// The shortest time between a refusal and the next request: several pushes share one wake-up, and delays may be made up
    /// for.
    static let shortestWait = Duration.milliseconds(2)

    private let state: Locked<RateLimits>
    /// Whether there is a limit; without one, callers take no lock.
    private let limits = Atomic<Bool>(false)

    /// - Parameters: 0 means no limit; bits count payload only.
    public init(pushesPerSecond: Double = 0, bitsPerSecond: Double = 0) {
        let limits = RateLimits.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        state = Locked(RateLimits(limits: limits, now: .now))
        self.limits.store(!limits.isNone, ordering: .relaxed)
    }

    /// Changes the limits from the next push on. Afterwards, call `SessionPool.limitsChanged()` for each pool.
    public func change(pushesPerSecond: Double, bitsPerSecond: Double) {
        let limits = RateLimits.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        state.withLock { $0.change(limits: limits, now: .now) }
        self.limits.store(!limits.isNone, ordering: .relaxed)
    }

    /// The number of jobs that need to wait in the pools; `nil` without a limit.
    public var holding: Int? { isLimiting ? state.withLock { $0.halfASecond } : nil }

    /// The time that `count` pushes take under the limits.
    public func duration(of count: Int) -> Duration { state.withLock { $0.duration(of: count) } }

    var isLimiting: Bool { limits.load(ordering: .relaxed) }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    ///
    /// - Parameter payload: in bytes.
    func admit(payload: Int) -> Instant? {
        state.withLock { state in
            let now = Instant.now
            return state.admit(payload: payload, now: now).map { max($0, now + SharedRateLimits.shortestWait) }
        }
    }
}
