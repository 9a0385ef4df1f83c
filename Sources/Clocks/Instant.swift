import Glibc

/// A moment on a clock that no one can set and that goes on while the machine is suspended: CLOCK_BOOTTIME, clock_gettime(2).
///
/// Not `ContinuousClock.Instant`, which reads the same clock: the standard library keeps its layout to itself, so that every type
/// with one in it is copied, compared and destroyed by calls at run time. This is one integer in two words. A sum that leaves its range,
/// five million million years, stays at its end.
public struct Instant: Sendable, Hashable, Comparable {
    // Two words, as in `Duration`: an Int128 must lie at a multiple of 16, and Swift 6.3 copies a value that holds one, and that a
    // function has returned, with an aligned move (movaps) from a place that is none. That is SIGSEGV.
    @usableFromInline let high: Int64
    @usableFromInline let low: UInt64

    @inlinable
    init(attoseconds: Int128) {
        high = Int64(truncatingIfNeeded: attoseconds >> 64)
        low = UInt64(truncatingIfNeeded: attoseconds)
    }

    /// Since the machine started; the unit of `Duration`, so that nothing is divided.
    @inlinable
    var attoseconds: Int128 { Int128(high) << 64 | Int128(low) }

    public static var now: Instant {
        var time = timespec()
        unsafe clock_gettime(CLOCK_BOOTTIME, &time)
        return Instant(attoseconds: (Int128(time.tv_sec) * 1_000_000_000 + Int128(time.tv_nsec)) * 1_000_000_000)
    }

    @inlinable
    public static func < (left: Instant, right: Instant) -> Bool { left.attoseconds < right.attoseconds }

    @inlinable
    public static func + (instant: Instant, duration: Duration) -> Instant {
        let (sum, isOverflow) = instant.attoseconds.addingReportingOverflow(duration.attoseconds)
        return Instant(attoseconds: isOverflow ? (duration < .zero ? .min : .max) : sum)
    }

    @inlinable
    public static func - (instant: Instant, duration: Duration) -> Instant {
        let (difference, isOverflow) = instant.attoseconds.subtractingReportingOverflow(duration.attoseconds)
        return Instant(attoseconds: isOverflow ? (duration < .zero ? .max : .min) : difference)
    }

    @inlinable
    public static func += (instant: inout Instant, duration: Duration) { instant = instant + duration }

    @inlinable
    public static func - (left: Instant, right: Instant) -> Duration {
        let (difference, isOverflow) = left.attoseconds.subtractingReportingOverflow(right.attoseconds)
        return Duration(attoseconds: isOverflow ? (left < right ? .min : .max) : difference)
    }
}
