import Clocks
internal import Synchronization
internal import Threads

/// When the next push may go: so many a second, and so many bits of payload a second, and never more.
struct RateLimits {
    /// 0 is no limit.
    struct Limits: Sendable, Equatable {
        var pushesPerSecond = 0.0
        var bitsPerSecond = 0.0

        var isNone: Bool { pushesPerSecond <= 0 && bitsPerSecond <= 0 }
    }

    private(set) var limits: Limits
    private var pushes: RateLimiter?
    private var bits: RateLimiter?
    /// Of a payload, in bits: at first the most that most push types may have, so that few bits a second do not hold thousands of jobs.
    private var usualBits = 4096.0 * 8

    init(limits: Limits, now: Instant) {
        self.limits = limits
        change(limits: limits, now: now)
    }

    /// Other limits, from the next push on; what went within the last second under a limit counts for the new one.
    mutating func change(limits: Limits, now: Instant) {
        self.limits = limits
        RateLimits.change(&pushes, to: limits.pushesPerSecond, now: now)
        RateLimits.change(&bits, to: limits.bitsPerSecond, now: now)
    }

    private static func change(_ meter: inout RateLimiter?, to limit: Double, now: Instant) {
        if limit <= 0 {
            meter = nil
        } else if meter == nil {
            meter = RateLimiter(limit: limit, now: now)
        } else {
            meter?.change(limit: limit, now: now)
        }
    }

    /// Lets a push go now and counts it, or says when to ask again.
    ///
    /// - Parameter payload: in bytes.
    mutating func admit(payload: Int, now: Instant) -> Instant? {
        let size = Double(payload * 8)
        let opening = max(pushes?.opening(for: 1, now: now) ?? now, bits?.opening(for: size, now: now) ?? now)
        if opening > now { return opening }
        pushes?.count(1, now: now)
        bits?.count(size, now: now)
        usualBits += (size - usualBits) / 64
        return nil
    }

    /// How many pushes half a second carries, at least one: more need not be claimed.
    var halfASecond: Int { Int(max(1, min(perSecond / 2, Double(Int32.max)))) }

    /// How long so many pushes take.
    func duration(of count: Int) -> Duration { .seconds(Double(count) / perSecond) }

    private var perSecond: Double {
        var rate = Double.infinity
        if limits.pushesPerSecond > 0 { rate = limits.pushesPerSecond }
        if limits.bitsPerSecond > 0 { rate = min(rate, limits.bitsPerSecond / max(1, usualBits)) }
        return rate
    }
}
