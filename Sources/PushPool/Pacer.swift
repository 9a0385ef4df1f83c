internal import Threads

/// When the next push may go: so many a second, and so many bits of payload a second, and never more.
///
/// Each push moves the time of the next one on by its own share of a second (ITU-T I.371's generic cell rate algorithm). Sessions
/// wake late by some milliseconds: what they missed in that time, and no more, they may make up for.
struct Pacer {
    /// 0 is no limit.
    struct Limits: Sendable, Equatable {
        var pushesPerSecond = 0.0
        var bitsPerSecond = 0.0

        var isNone: Bool { pushesPerSecond <= 0 && bitsPerSecond <= 0 }
    }

    /// The most that may be made up for.
    private static let slack = Duration.milliseconds(5)
    /// The slack must not lift any second above the limit: 1.005 x 0.995 is below 1.
    private static let margin = 0.995

    var limits: Limits
    private var nextPush: ContinuousClock.Instant
    private var nextBits: ContinuousClock.Instant

    init(limits: Limits, now: ContinuousClock.Instant) {
        self.limits = limits
        (nextPush, nextBits) = (now, now)
    }

    /// When the next push may go; past where it may go at once.
    var opening: ContinuousClock.Instant { max(nextPush, nextBits) }

    /// Whether a push may go now; it counts then.
    ///
    /// - Parameter payload: in bytes.
    mutating func admit(payload: Int, now: ContinuousClock.Instant) -> Bool {
        if opening > now { return false }
        if limits.pushesPerSecond > 0 {
            nextPush = max(nextPush, now - Pacer.slack) + .seconds(1 / (limits.pushesPerSecond * Pacer.margin))
        }
        if limits.bitsPerSecond > 0 {
            let share = Double(payload * 8) / (limits.bitsPerSecond * Pacer.margin)
            nextBits = max(nextBits, now - Pacer.slack) + .seconds(share)
        }
        return true
    }

    /// How many pushes half a second carries, at least one: more need not be claimed.
    var halfASecond: Int {
        var pushes = Double(Int.max / 2)
        if limits.pushesPerSecond > 0 { pushes = limits.pushesPerSecond / 2 }
        // The largest payloads there are, so that few bits a second do not hold thousands of jobs.
        if limits.bitsPerSecond > 0 { pushes = min(pushes, limits.bitsPerSecond / 2 / Double(4096 * 8)) }
        return max(1, Int(pushes))
    }
}

/// The pacer of all pools of a daemon: `max_rate` and `max_bandwidth` hold for all of them together.
public final class SharedPacer: Sendable {
    private let pacer: Locked<Pacer>

    /// 0 is no limit. Bits of payload.
    public init(pushesPerSecond: Double, bitsPerSecond: Double) {
        let limits = Pacer.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
        pacer = Locked(Pacer(limits: limits, now: .now))
    }

    /// Other limits, from the next push on.
    public func change(pushesPerSecond: Double, bitsPerSecond: Double) {
        pacer.withLock { pacer in
            let limits = Pacer.Limits(pushesPerSecond: pushesPerSecond, bitsPerSecond: bitsPerSecond)
            // A long wait under the old limits must not outlive them.
            if limits != pacer.limits { pacer = Pacer(limits: limits, now: .now) }
        }
    }

    /// How many jobs need to be held at most; `nil` where there is no limit.
    public var holding: Int? { pacer.withLock { $0.limits.isNone ? nil : $0.halfASecond } }

    /// How many of the first so many payloads may go now, and, when not all may, when to ask again.
    ///
    /// - Parameter size: of the payload at a place, in bytes.
    func admit(_ count: Int, now: ContinuousClock.Instant, size: (Int) -> Int) -> (count: Int, again: ContinuousClock.Instant?) {
        pacer.withLock { pacer in
            if pacer.limits.isNone { return (count, nil) }
            for place in 0..<count where !pacer.admit(payload: size(place), now: now) { return (place, pacer.opening) }
            return (count, nil)
        }
    }
}
