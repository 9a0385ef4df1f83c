import Clocks
import RedisQueue

/// How long a list rests between claims while the jobs of a held app go round in it, from its head to its tail.
///
/// Those of other apps stand behind them or between them, and must come by soon; a list in which there are none is looked
/// through now and then. A pure value: what a claim has found goes in, a pause comes out.
struct HeldRounds {
    /// For each job that was given back: 100,000 in a second at most, a small part of what Redis can do.
    static let perJob = Duration.microseconds(10)
    /// After a round in which every job was given back: as long as the round took, within these bounds.
    static let rest: ClosedRange<Duration> = .milliseconds(250)...(.seconds(5))

    /// Jobs of one claim while nothing but jobs of held apps is found: what stands behind them may have few places yet.
    static let look = 250

    /// The first job of a round in which no other was placed so far, and when it began.
    private var mark: (job: [UInt8], since: Instant)?

    /// How many jobs to claim for so many places.
    func places(_ places: Int) -> Int { mark == nil || places == 0 ? places : max(places, Self.look) }

    /// A claim was looked at: so many of its jobs found their place, and these were given back.
    ///
    /// - Returns: how long to wait with the next claim; `nil` is not at all.
    mutating func claimed(placed: Int, givenBack: [ClaimedJob], now: Instant) -> Duration? {
        guard let first = givenBack.first else { return nil }
        let pause = Self.perJob * givenBack.count
        if placed > 0 {
            mark = nil
            return pause
        }
        guard let mark else {
            self.mark = (first.bytes, now)
            return pause
        }
        guard givenBack.contains(where: { $0.bytes == mark.job }) else { return pause }
        self.mark = nil
        return min(max(now - mark.since, Self.rest.lowerBound), Self.rest.upperBound)
    }
}
