import Platform

/// Decides when a pool that windows or streams limit advises a larger one: after five seconds, and at most every ten minutes.
struct AdviceSchedule {
    static let interval = Duration.seconds(5)
    static let pause = Duration.seconds(600)

    /// The next look; `nil` while nothing is blocked.
    private(set) var deadline: Instant?
    /// The blocked time at the beginning of the interval; `nil` during the pause.
    private var start: (blocked: Duration, at: Instant)?

    /// A notification waits while all sessions are full.
    mutating func woke(blocked: Duration, now: Instant) {
        if deadline == nil { begin(blocked, now) }
    }

    private mutating func begin(_ blocked: Duration, _ now: Instant) {
        (start, deadline) = ((blocked, now), now + Self.interval)
    }

    /// Evaluates one look. Returns whether to advise: the pool was blocked for more than half of the interval.
    ///
    /// - Parameter blocked: the time for which windows or streams have blocked the pool so far.
    mutating func look(blocked: Duration, now: Instant) -> Bool {
        guard let start else {
            begin(blocked, now)
            return false
        }
        if blocked - start.blocked > (now - start.at) / 2 {
            (self.start, deadline) = (nil, now + Self.pause)
            return true
        }
        deadline = nil
        return false
    }
}
