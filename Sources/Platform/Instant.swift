import Glibc

/// An instant on a clock that cannot be set and that continues while the machine is suspended: CLOCK_BOOTTIME,
/// clock_gettime(2).
///
/// Not `ContinuousClock.Instant`, which reads the same clock: the standard library hides its layout, so that types with one in
/// it are copied, compared and destroyed by calls at run time. This is one integer in two words. A sum out of range stays at
/// the end of the range.
public struct Instant: Sendable, Hashable, Comparable {
    // Two words, as in `Duration`: an Int128 must be aligned to 16 bytes, and Swift 6.3 copies a returned value that holds one
    // with an aligned move (movaps) from an unaligned place. That is SIGSEGV.
    @usableFromInline let high: Int64
    @usableFromInline let low: UInt64

    @inlinable
    init(attoseconds: Int128) {
        high = Int64(truncatingIfNeeded: attoseconds >> 64)
        low = UInt64(truncatingIfNeeded: attoseconds)
    }

    /// The time since the machine started, in the unit of `Duration`, so that no division is needed.
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

/// The earliest of several instants, some of which may be absent.
public struct Earliest {
    public var instant: Instant?

    @inlinable
    public init(_ instant: Instant? = nil) { self.instant = instant }

    @inlinable
    public mutating func consider(_ other: Instant?) {
        guard let other else { return }
        if let instant, instant <= other { return }
        instant = other
    }
}
