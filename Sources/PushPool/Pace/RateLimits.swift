internal import Platform
internal import Synchronization

/// Two rate limits: pushes per second and bits of payload per second, of this process and of all daemons of its list.
struct RateLimits {
    /// The time after which a caller asks again while a lease is missing.
    private static let leaseWait = Duration.milliseconds(5)

    /// 0 means no limit.
    struct Limits: Sendable, Equatable {
        var pushesPerSecond = 0.0
        var bitsPerSecond = 0.0

        var isNone: Bool { pushesPerSecond <= 0 && bitsPerSecond <= 0 }
    }

    private(set) var limits: Limits
    private var pushes: RateLimiter?
    private var bits: RateLimiter?
    /// `nil` without a limit for the fleet.
    private var fleet: FleetShare?
    /// The usual payload in bits. It starts with the limit of most push types, so that a low bandwidth does not hold thousands
    /// of jobs.
    private var usualBits = 4096.0 * 8

    init(limits: Limits, now: Instant) {
        self.limits = limits
        change(limits: limits, now: now)
    }

    /// Changes the limits from the next push on. Units of the last second count towards the new limits.
    mutating func change(limits: Limits, now: Instant) {
        self.limits = limits
        RateLimits.change(&pushes, to: limits.pushesPerSecond, now: now)
        RateLimits.change(&bits, to: limits.bitsPerSecond, now: now)
    }

    private static func change(_ limiter: inout RateLimiter?, to limit: Double, now: Instant) {
        if limit <= 0 {
            limiter = nil
        } else if limiter == nil {
            limiter = RateLimiter(limit: limit, now: now)
        } else {
            limiter?.change(limit: limit, now: now)
        }
    }

    /// Changes the limits of the fleet. Leased windows end, because they were leased under other limits.
    mutating func change(fleet limits: Limits) {
        if limits != fleet?.limits ?? Limits() { fleet = limits.isNone ? nil : FleetShare(limits: limits) }
    }

    /// Whether any limit is set.
    var isLimiting: Bool { !limits.isNone || fleet != nil }

    /// The length of the window to lease for the fleet's limits; `nil` if none is needed.
    var wantedLease: Duration? { fleet?.wanted }

    /// The fleet's limits allow this process alone to send in this window.
    mutating func leased(from start: Instant, length: Duration) { fleet?.leased(from: start, length: length) }

    /// Counts a push that may go now and returns `nil`, or returns the time to ask again.
    ///
    /// - Parameter payload: in bytes.
    mutating func admit(payload: Int, now: Instant) -> Instant? {
        let size = Double(payload * 8)
        let opening = max(pushes?.opening(for: 1, now: now) ?? now, bits?.opening(for: size, now: now) ?? now)
        if opening > now { return opening }
        if fleet != nil {
            guard let opening = fleet?.opening(bits: size, now: now) else { return now + RateLimits.leaseWait }
            if opening > now { return opening }
            fleet?.count(bits: size, now: now)
        }
        pushes?.count(1, now: now)
        bits?.count(size, now: now)
        usualBits += (size - usualBits) / 64
        return nil
    }

    /// The number of pushes in half a second, at least one: more need not be claimed.
    var halfASecond: Int { Int(max(1, min(perSecond / 2, Double(Int32.max)))) }

    /// The time that `count` pushes take.
    func duration(of count: Int) -> Duration { .seconds(Double(count) / perSecond) }

    private var perSecond: Double {
        var rate = Double.infinity
        for limits in [limits, fleet?.limits ?? Limits()] {
            if limits.pushesPerSecond > 0 { rate = min(rate, limits.pushesPerSecond) }
            if limits.bitsPerSecond > 0 { rate = min(rate, limits.bitsPerSecond / max(1, usualBits)) }
        }
        return rate
    }
}
