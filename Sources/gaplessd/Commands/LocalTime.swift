/// Times for people, as the log writes them.
enum LocalTime {
    /// `2026/11/20 22:50:01`, local time.
    ///
    /// - Parameter seconds: since 1970; what lies beyond the year 9999 is shown as a number.
    static func text(of seconds: Int64) -> String {
        guard seconds.magnitude < 250_000_000_000 else { return "\(seconds)" }
        var stamps = LogStamps()
        stamps.set(Int(seconds))
        return String(decoding: stamps.local, as: UTF8.self)
    }
}
