/// Warns at every multiple of this many dead letters, where no maximum is set.
struct DeadLetterAlarm {
    static let step = 10_000

    private var next = DeadLetterAlarm.step

    /// Whether this number of dead letters is to be reported.
    mutating func isWorthReporting(_ count: Int) -> Bool {
        guard count > 0 else { return false }
        defer { next = (count / DeadLetterAlarm.step + 1) * DeadLetterAlarm.step }
        return count >= next
    }
}
