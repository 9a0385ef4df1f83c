import CLinux
import Glibc

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
