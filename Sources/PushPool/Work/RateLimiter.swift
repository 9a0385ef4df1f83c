internal import DequeModule
import Platform

/// Limits the units within any second and spreads them evenly over it.
///
/// Each unit delays the next one by its own share of a second (the generic cell rate algorithm of ITU-T I.371), so that there
/// are no bursts. Delays may be made up for within a small slack. The units of a second and this slack are remembered and keep
/// to the limit of one second. So no second exceeds the limit at the receiver either, as long as the times on the way differ by
/// at most the slack. The price is 2 % of the rate.
struct RateLimiter {
    /// The longest delay that may be made up for: sessions wake late by some milliseconds.
    private static let slack = Duration.milliseconds(20)
    /// The time for which units are remembered: a second and the slack.
    private static let memory = Duration.milliseconds(1020)
    private static let memoryInSeconds = 1.02
    /// Units within this time are remembered as one mark, with the time of the last.
    private static let grain = Duration.milliseconds(1)

    private struct Mark {
        var first: Instant
        var last: Instant
        var units: Double
    }

    /// Units per second, above 0.
    private(set) var limit: Double
    private var next: Instant
    /// The units within `memory`, oldest first.
    private var marks: Deque<Mark> = []
    private var sum = 0.0

    init(limit: Double, now: Instant) {
        self.limit = limit
        next = now
    }

    /// Returns the time from which these units may go: now or earlier means at once. More units than the limit go alone, into
    /// a time without any other.
    mutating func opening(for units: Double, now: Instant) -> Instant {
        forget(before: now)
        var left = sum
        for mark in marks where left + units > limit {
            left -= mark.units
            if left + units <= limit || mark.last == marks.last?.last { return max(next, mark.last + RateLimiter.memory) }
        }
        return next
    }

    /// Counts units that go now.
    mutating func count(_ units: Double, now: Instant) {
        next = max(next, now - RateLimiter.slack) + share(of: units)
        sum += units
        if let last = marks.last, now - last.first < RateLimiter.grain {
            marks[marks.count - 1].last = now
            marks[marks.count - 1].units += units
        } else {
            marks.append(Mark(first: now, last: now, units: units))
        }
    }

    /// Changes the limit. Counted units stay counted; a long wait under the old limit is shortened.
    mutating func change(limit: Double, now: Instant) {
        self.limit = limit
        next = min(next, now + share(of: 1))
    }

    private func share(of units: Double) -> Duration { .seconds(units * RateLimiter.memoryInSeconds / limit) }

    private mutating func forget(before now: Instant) {
        while let oldest = marks.first, oldest.last + RateLimiter.memory <= now {
            sum -= oldest.units
            marks.removeFirst()
        }
        // No rounding error outlives the last mark.
        if marks.isEmpty { sum = 0 }
    }
}

extension RateLimiter? {
    /// Changes the limit; `nil` ends it.
    mutating func change(to limit: Double?, now: Instant) {
        guard let limit else {
            self = nil
            return
        }
        if self == nil { self = RateLimiter(limit: limit, now: now) }
        self?.change(limit: limit, now: now)
    }
}

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
