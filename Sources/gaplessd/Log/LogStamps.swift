import Glibc

/// The time of day in the formats of the log, formatted once a second.
struct LogStamps: Sendable {
    /// `2026/11/20 22:50:01`, local time.
    private(set) var local = ""
    /// `2026-11-20T22:50:01+01:00` (RFC 3339).
    private(set) var rfc3339 = ""
    private var second: time_t = .min

    /// Reads the clock. Returns whether the stamps are new. The coarse clock lags by some milliseconds and costs a few
    /// nanoseconds.
    @inline(__always)
    mutating func refresh() -> Bool {
        var now = timespec()
        unsafe clock_gettime(CLOCK_REALTIME_COARSE, &now)
        if now.tv_sec == second { return false }
        set(now.tv_sec)
        return true
    }

    /// - Parameter time: Unix seconds.
    mutating func set(_ time: time_t) {
        second = time
        local = LocalTime.text(of: Int64(time))
        rfc3339 = LocalTime.rfc3339(of: Int64(time))
    }
}
