import Clocks
internal import DequeModule

/// One limit: so many units within any second, spread evenly over it.
///
/// Each unit moves the time of the next one on by its own share of a second (ITU-T I.371's generic cell rate algorithm), so that
/// nothing comes in bursts. And what went within the last second is remembered: who was late may make up for it, and no second
/// has more than the limit all the same.
struct RateLimiter {
    /// The most that may be made up for: sessions wake late by some milliseconds.
    private static let slack = Duration.milliseconds(20)
    /// What goes evenly also arrives evenly, but for the jitter of the way: half a percent is left to that.
    private static let margin = 0.995
    /// What went within so long is remembered as one, with the time of the last of it.
    private static let grain = Duration.milliseconds(1)

    private struct Mark {
        var first: Instant
        var last: Instant
        var units: Double
    }

    /// Units a second, above 0.
    private(set) var limit: Double
    private var next: Instant
    /// What went within the last second, oldest first.
    private var marks: Deque<Mark> = []
    private var sum = 0.0

    init(limit: Double, now: Instant) {
        self.limit = limit
        next = now
    }

    /// When so many units may go: past or now if at once. More than the limit go alone, into a second with nothing else in it.
    mutating func opening(for units: Double, now: Instant) -> Instant {
        forget(before: now)
        var left = sum
        for mark in marks where left + units > limit {
            left -= mark.units
            if left + units <= limit || mark.last == marks.last?.last { return max(next, mark.last + .seconds(1)) }
        }
        return next
    }

    /// So many units go.
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

    /// Another limit. What went counts, but a long wait under the old one does not outlive it.
    mutating func change(limit: Double, now: Instant) {
        self.limit = limit
        next = min(next, now + share(of: 1))
    }

    private func share(of units: Double) -> Duration { .seconds(units / (limit * RateLimiter.margin)) }

    private mutating func forget(before now: Instant) {
        while let oldest = marks.first, oldest.last + .seconds(1) <= now {
            sum -= oldest.units
            marks.removeFirst()
        }
        // No rounding error outlives the last mark.
        if marks.isEmpty { sum = 0 }
    }
}
