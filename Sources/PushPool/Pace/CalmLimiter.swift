import Platform

/// Limits the pushes per second of a pool whose peer sent ENHANCE_YOUR_CALM (RFC 9113, 7): to half of the rate so far, doubled
/// with each quiet minute until it exceeds that rate. Knows no thread and no clock.
struct CalmLimiter {
    /// A message within this time after a halving refers to the pushes before it, because the rate is counted over a second.
    static let echo = Duration.seconds(1)

    /// The time without another ENHANCE_YOUR_CALM after which the limit doubles.
    let quietTime: Duration
    /// Pushes per second, at least 1; `nil` without a limit.
    private(set) var limit: Int?
    /// The time at which the limit doubles or ends.
    private(set) var deadline: Instant?
    /// The rate at the first ENHANCE_YOUR_CALM.
    private var measured = 0
    private var halvedAt: Instant?

    init(quietTime: Duration) {
        self.quietTime = quietTime
    }

    /// A session received ENHANCE_YOUR_CALM. Returns whether the limit is lower now.
    ///
    /// - Parameter rate: pushes per second that the pool has made recently; 0 sets no limit.
    mutating func slowDown(rate: Int, now: Instant) -> Bool {
        let before = limit ?? rate
        if before == 0 { return false }
        deadline = now + quietTime
        if let limit {
            if limit == 1 || halvedAt.map({ now - $0 < CalmLimiter.echo }) ?? false { return false }
        } else {
            measured = rate
        }
        limit = max(1, before / 2)
        halvedAt = now
        return true
    }

    /// Time has passed. Returns whether the limit is higher now or has ended.
    mutating func tick(now: Instant) -> Bool {
        guard let limit, let due = deadline, due <= now else { return false }
        let larger = limit * 2
        self.limit = larger > measured ? nil : larger
        deadline = self.limit == nil ? nil : now + quietTime
        return true
    }
}
