import RedisQueue
import SystemTime

/// Decides the rest between two claims from a list in which jobs of held apps rotate from head to tail.
///
/// Jobs of other apps may be behind them or between them and must be found soon. A list that has only jobs of held apps rests
/// after each rotation.
struct ClaimPause {
    /// The rest for each job that was given back: at most 100,000 jobs per second rotate, a small part of what Redis can do.
    static let perJob = Duration.microseconds(10)
    /// The rest after a full rotation without a placed job: as long as the rotation took, within these bounds.
    static let rest: ClosedRange<Duration> = .milliseconds(250)...(.seconds(5))

    /// A rotation that takes longer ends without its first job: another daemon may have sent it, or an operator cancelled it.
    static let longestRotation = Duration.seconds(60)

    /// Jobs per claim while no claim finds a job that can be placed: there may be few places, and many jobs before the first
    /// such job.
    static let lookAhead = 250

    /// The first job and the start of a rotation in which no job has been placed so far.
    private var mark: (job: [UInt8], since: Instant)?

    /// Returns the number of jobs to claim for this many places.
    func places(_ places: Int) -> Int { mark == nil || places == 0 ? places : max(places, Self.lookAhead) }

    /// A claim found `placed` jobs that could go out; the others were given back.
    ///
    /// - Returns: the wait before the next claim; `nil` for no wait.
    mutating func claimed(placed: Int, givenBack: [ClaimedJob], now: Instant) -> Duration? {
        guard let first = givenBack.first else {
            if placed > 0 { mark = nil }
            return nil
        }
        let pause = Self.perJob * givenBack.count
        if placed > 0 {
            mark = nil
            return pause
        }
        guard let mark else {
            self.mark = (first.bytes, now)
            return pause
        }
        let isComplete = now - mark.since >= Self.longestRotation || givenBack.contains { $0.bytes == mark.job }
        if !isComplete { return pause }
        self.mark = nil
        return min(max(now - mark.since, Self.rest.lowerBound), Self.rest.upperBound)
    }
}
