import Platform

/// Keeps claims within the rate limits: no more jobs wait in the pools than half a second can send. The others stay in the
/// list, where LLEN counts them.
struct ClaimBudget {
    /// A rate limit, as far as claims depend on it.
    struct Rate: Equatable {
        /// The most jobs that need to wait in the pools.
        var mostWaiting: Int
        var timePerPush: Duration

        init(mostWaiting: Int, timePerPush: Duration) {
            self.mostWaiting = mostWaiting
            self.timePerPush = timePerPush
        }

        init(pushesPerSecond: Int) {
            self.init(mostWaiting: max(1, pushesPerSecond / 2), timePerPush: .seconds(1) / pushesPerSecond)
        }
    }

    /// The time at which enough of the waiting jobs are gone for another claim; `nil` if no limit holds back a claim.
    private(set) var nextRefill: Instant?

    mutating func reset() { nextRefill = nil }

    /// Returns how many of `places` may be filled while `waiting` jobs wait for `rate`.
    ///
    /// The sessions do not report when they take a job: the next look is due when half of the waiting jobs are gone.
    mutating func places(_ places: Int, under rate: Rate?, waiting: Int, now: Instant) -> Int {
        guard places > 0, let rate else { return places }
        let room = max(0, rate.mostWaiting - waiting)
        guard room < places, room < (rate.mostWaiting + 1) / 2 else { return min(places, room) }
        let again = now + max(.milliseconds(5), rate.timePerPush * ((waiting + 1) / 2))
        nextRefill = min(nextRefill ?? again, again)
        return room
    }
}
