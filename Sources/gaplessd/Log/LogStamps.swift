import Glibc

/// The time of day as the log writes it, made once a second.
struct LogStamps: Sendable {
    /// `2026/11/20 22:50:01`, local time.
    private(set) var local = ""
    /// `2026-11-20T22:50:01+01:00` (RFC 3339).
    private(set) var rfc3339 = ""
    private var second: time_t = .min

    /// Call it before each line; true where the stamps are new. The coarse clock lags by some milliseconds and costs a few
    /// nanoseconds.
    @inline(__always)
    mutating func refresh() -> Bool {
        var now = timespec()
        clock_gettime(CLOCK_REALTIME_COARSE, &now)
        if now.tv_sec == second { return false }
        set(now.tv_sec)
        return true
    }

    /// - Parameter time: Unix seconds.
    mutating func set(_ time: time_t) {
        second = time
        var time = time
        var parts = tm()
        localtime_r(&time, &parts)
        let date = [digits(1900 + Int(parts.tm_year), 4), digits(1 + Int(parts.tm_mon), 2), digits(Int(parts.tm_mday), 2)]
        let clock = [Int(parts.tm_hour), Int(parts.tm_min), Int(parts.tm_sec)].map { digits($0, 2) }.joined(separator: ":")
        local = "\(date.joined(separator: "/")) \(clock)"
        rfc3339 = "\(date.joined(separator: "-"))T\(clock)\(zone(secondsEast: parts.tm_gmtoff))"
    }

    private func zone(secondsEast: Int) -> String {
        let minutes = abs(secondsEast) / 60
        return (secondsEast < 0 ? "-" : "+") + digits(minutes / 60, 2) + ":" + digits(minutes % 60, 2)
    }

    private func digits(_ number: Int, _ width: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, width - text.count)) + text
    }
}
