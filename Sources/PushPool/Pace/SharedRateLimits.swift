import Clocks
internal import Synchronization
internal import Threads

/// The pacer of all pools of a daemon: `max_rate` and `max_bandwidth` hold for all of them together.
public final class SharedRateLimits: Sendable {
    /// No session asks sooner than so long after a refusal: several pushes are worth one wake-up, and what is late may be made up for.
    static let shortestWait = Duration.milliseconds(2)

    private let pacer: Locked<RateLimits>
    /// Whether there is a limit at all: who finds none takes no lock.
    private let limits = Atomic<Bool>(false)

    /// 0 is no limit. Bits of payload.
    public init(pushesPerSecond: Double = 0, bitsPerSecond: Double = 0) {
        let limits = RateLimits.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        pacer = Locked(RateLimits(limits: limits, now: .now))
        self.limits.store(!limits.isNone, ordering: .relaxed)
    }

    /// Other limits, from the next push on. Each pool must then hear `SessionPool.limitsChanged()`.
    public func change(pushesPerSecond: Double, bitsPerSecond: Double) {
        let limits = RateLimits.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        pacer.withLock { $0.change(limits: limits, now: .now) }
        self.limits.store(!limits.isNone, ordering: .relaxed)
    }

    /// How many jobs need to wait in the pools at most; `nil` where there is no limit.
    public var holding: Int? { isLimiting ? pacer.withLock { $0.halfASecond } : nil }

    /// How long so many pushes take under the limits.
    public func duration(of count: Int) -> Duration { pacer.withLock { $0.duration(of: count) } }

    var isLimiting: Bool { limits.load(ordering: .relaxed) }

    /// Lets a push go now and counts it, or says when to ask again.
    ///
    /// - Parameter payload: in bytes.
    func admit(payload: Int) -> Instant? {
        pacer.withLock { pacer in
            let now = Instant.now
            return pacer.admit(payload: payload, now: now).map { max($0, now + SharedRateLimits.shortestWait) }
        }
    }
}
