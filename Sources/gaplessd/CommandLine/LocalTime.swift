import Glibc

/// Times for people, as the log writes them.
enum LocalTime {
    /// `2026/11/20 22:50:01`, local time.
    ///
    /// - Parameter seconds: since 1970; what lies beyond the year 9999 or thereabouts is shown as a number.
    static func text(of seconds: Int64) -> String {
        guard seconds.magnitude < 250_000_000_000 else { return "\(seconds)" }
        var time = time_t(seconds)
        var parts = tm()
        localtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 64)
        let length = strftime(&text, text.count, "%Y/%m/%d %H:%M:%S", &parts)
        return String(decoding: text.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
