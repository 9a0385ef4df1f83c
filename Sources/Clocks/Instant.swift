import Glibc

/// A moment on a clock that no one can set and that goes on while the machine is suspended: CLOCK_BOOTTIME, clock_gettime(2).
///
/// Not `ContinuousClock.Instant`, which reads the same clock: the standard library keeps its layout to itself, so that every type with one in
/// it is copied, compared and destroyed by calls at run time; and it counts attoseconds, in 128 bits. This is one
/// integer, and sums that leave its 292 years stay at their end.
public struct Instant: Sendable, Hashable, Comparable {
    /// Since the machine started.
    private var nanoseconds: Int64

    private init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

    public static var now: Instant {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    @inline(__always)
    public static func < (left: Instant, right: Instant) -> Bool { left.nanoseconds < right.nanoseconds }

    /// Parts of a nanosecond are dropped.
    public static func + (instant: Instant, duration: Duration) -> Instant {
        Instant(nanoseconds: sum(instant.nanoseconds, nanosecondsOf(duration)))
    }

    public static func - (instant: Instant, duration: Duration) -> Instant {
        Instant(nanoseconds: sum(instant.nanoseconds, -nanosecondsOf(duration)))
    }

    public static func += (instant: inout Instant, duration: Duration) { instant = instant + duration }

    public static func - (left: Instant, right: Instant) -> Duration { .nanoseconds(sum(left.nanoseconds, -right.nanoseconds)) }

    private static func sum(_ left: Int64, _ right: Int64) -> Int64 {
        let (sum, isOverflow) = left.addingReportingOverflow(right)
        return isOverflow ? (right < 0 ? -.max : .max) : sum
    }

    /// At most `Int64.max` either way, so that it can be negated.
    private static func nanosecondsOf(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        let (whole, isOverflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        if isOverflow { return seconds < 0 ? -.max : .max }
        return sum(whole, attoseconds / 1_000_000_000)
    }
}
