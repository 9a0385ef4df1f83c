import CLinux
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

/// The time of day, which may jump. Use it only for values that APNs, Redis or people read as a time of day.
public struct WallClock: Equatable, Sendable {
    /// Seconds since 1970.
    public var seconds: Double

    /// Whole seconds since 1970, the unit of `apns-expiration`.
    public var unixSeconds: Int64 { Int64(seconds) }

    public init(seconds: Double) { self.seconds = seconds }

    public static func now() -> WallClock {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return WallClock(seconds: Double(time.tv_sec) + Double(time.tv_nsec) / 1e9)
    }
}

/// Dates in UTC, by the calendar of the C library. The process never sets a locale, so names of months are English.
public enum UTCDate {
    /// Returns the date of Unix seconds, for example `2026-11-20`.
    public static func day(_ seconds: Int64) -> String { text(seconds, "%Y-%m-%d") }

    /// Returns the date as HTTP writes it (RFC 9110, 5.6.7).
    public static func http(_ seconds: Int64) -> String { text(seconds, httpFormat) }

    /// Reads a date as HTTP writes it, for example `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7), as Unix seconds.
    ///
    /// Servers must not send the two older forms; they are refused. The day of the week is not checked.
    public static func unixSeconds(http date: String) -> Int64? {
        var parts = unsafe tm()
        guard unsafe strptime(date, httpFormat, &parts) != nil else { return nil }
        let seconds = Int64(unsafe timegm(&parts))
        // strptime accepts other spacing, single digits and text behind the date, timegm a 31 February: only an exact date
        // comes back unchanged.
        return text(seconds, httpFormat).dropFirst(3) == date.dropFirst(3) && seconds >= 0 ? seconds : nil
    }

    private static let httpFormat = "%a, %d %b %Y %H:%M:%S GMT"

    private static func text(_ seconds: Int64, _ format: String) -> String {
        var time = time_t(seconds)
        var parts = unsafe tm()
        guard unsafe gmtime_r(&time, &parts) != nil else { return "\(seconds)" }
        var text = [CChar](repeating: 0, count: 40)
        let count = unsafe strftime(&text, text.count, format, &parts)
        return String(decoding: text.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
