import Platform

/// The time at which the first job in `delayed` is due, and so the next promotion.
struct DelayedJobs {
    private static let interval = Duration.milliseconds(100)

    private(set) var dueAt: Instant?

    mutating func learned(_ due: ScriptReply.NextDue, now: Instant) {
        switch due {
        case .unknown: break
        case .never: dueAt = nil
        case .after(let delay): dueAt = now + delay
        }
    }

    /// The next promotion comes after the interval, unless more jobs were due than one promotion moves.
    mutating func promoted(_ reply: ScriptReply.Promoted, now: Instant) {
        learned(reply.due, now: now)
        if reply.count < 100, let next = dueAt { dueAt = max(next, now + DelayedJobs.interval) }
    }

    func isDue(now: Instant) -> Bool { dueAt.map { now >= $0 } ?? false }
}
