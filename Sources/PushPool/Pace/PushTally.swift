import Platform

/// Counts the pushes per second of a pool with one addition per batch. Callers' clocks may differ by milliseconds.
struct PushTally {
    /// A rate that is older than this is no longer reported.
    static let memory = Duration.seconds(10)

    /// The end of the second being counted. The next second begins with the first push after it.
    private var end: Instant
    private var pushes = 0
    /// Pushes in the second directly before.
    private var pushesBefore = 0

    init(now: Instant) { end = now }

    mutating func count(_ pushes: Int, now: Instant) {
        if now < end {
            self.pushes += pushes
        } else {
            pushesBefore = now < end + .seconds(1) ? self.pushes : 0
            self.pushes = pushes
            end = now + .seconds(1)
        }
    }

    /// Returns the pushes in the last second that had any, or in the current second if those are more.
    func rate(now: Instant) -> Int { now < end + PushTally.memory ? max(pushes, pushesBefore) : 0 }
}
