import Glibc

/// Formats times as the log does.
enum LocalTime {
    /// Returns local time as `2026/11/20 22:50:01`.
    ///
    /// - Parameter seconds: Unix seconds. A value after about the year 9999 is returned as a number.
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
