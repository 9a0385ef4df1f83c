import Clocks

/// How many pushes a second a pool may make after its peer said ENHANCE_YOUR_CALM (RFC 9113, 7): half of what it made, and with each
/// quiet minute twice as many, until that is more than it made before. Knows no thread and no clock.
struct CalmLimiter {
    /// Who is told so soon after a halving is told of the pushes before it: a rate is counted over a second.
    static let echo = Duration.seconds(1)

    /// Without another word for so long, the limit doubles.
    let quietTime: Duration
    /// Pushes a second, 1 or more; `nil` where nothing brakes.
    private(set) var limit: Int?
    /// When the limit doubles, or goes.
    private(set) var deadline: Instant?
    /// The rate at the first word.
    private var measured = 0
    private var halvedAt: Instant?

    init(quietTime: Duration) {
        self.quietTime = quietTime
    }

    /// A session was told to calm down. Returns whether the limit has become less.
    ///
    /// - Parameter rate: pushes a second that the pool has made lately. Where there were none, there is nothing to halve.
    mutating func told(rate: Int, now: Instant) -> Bool {
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

    /// Time has passed. Returns whether the limit is higher now, or gone.
    mutating func tick(now: Instant) -> Bool {
        guard let limit, let due = deadline, due <= now else { return false }
        let larger = limit * 2
        self.limit = larger > measured ? nil : larger
        deadline = self.limit == nil ? nil : now + quietTime
        return true
    }
}
