import Clocks

/// How many pushes a pool makes in a second, for an addition a batch. Who counts need not agree on the time to the millisecond.
struct PushTally {
    /// A word that comes so much later is not about these pushes any more.
    static let memory = Duration.seconds(10)

    /// The end of the second that is being counted. The next one begins with the first push after it.
    private var end: Instant
    private var pushes = 0
    /// In the second right before.
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

    /// Pushes in the last second that had any, or in the one that is not over yet, should those be more already.
    func rate(now: Instant) -> Int { now < end + PushTally.memory ? max(pushes, pushesBefore) : 0 }
}
