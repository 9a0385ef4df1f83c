import Platform

/// When to look for jobs, and how to sleep until there are some.
///
/// While the list has jobs, claims follow each other. Once a claim has found it empty, the second connection waits with a
/// blocking command. Where Redis refuses that command, the list is polled.
struct Waiting {
    enum State: Equatable {
        /// The list has jobs as far as is known.
        case busy
        /// A claim found it empty, and no wait has begun.
        case empty
        /// The blocking command is outstanding.
        case armed
        /// The blocking command is refused: claim again at `next`, and block again at `retry` (`nil`: never).
        case polling(next: Instant, pause: Duration, retry: Instant?)
    }

    private(set) var state = State.busy

    /// A claim has shown whether the list is empty now.
    mutating func claimed(drained: Bool, count: Int, now: Instant) {
        switch state {
        case .armed: break
        case .polling(_, let pause, let retry):
            // An old Redis is polled every 5 ms while jobs arrive, and every 50 ms while none do.
            let next = count > 0 ? .milliseconds(5) : min(pause * 2, .milliseconds(50))
            if !drained {
                state = .polling(next: now, pause: .milliseconds(5), retry: retry)
            } else if let retry, now >= retry {
                state = .empty
            } else {
                state = .polling(next: now + next, pause: next, retry: retry)
            }
        case .busy, .empty: state = drained ? .empty : .busy
        }
    }

    mutating func arm() { state = .armed }

    /// The wait ended, with a job or at its timeout.
    mutating func woke(somethingCame: Bool) { state = somethingCame ? .busy : .empty }

    mutating func refused(_ error: ErrorReply, now: Instant) {
        switch error.kind {
        case .unblocked: state = .busy
        case .outOfMemory:
            state = .polling(next: now + .milliseconds(20), pause: .milliseconds(10), retry: now + .seconds(1))
        case .unknownCommand: state = .polling(next: now + .milliseconds(5), pause: .milliseconds(5), retry: nil)
        default: state = .polling(next: now + .milliseconds(50), pause: .milliseconds(50), retry: now + .seconds(5))
        }
    }

    /// The feature that the server lacks for good, by this error.
    static func missingFeature(_ error: ErrorReply) -> MissingFeature? {
        switch error.kind {
        case .unknownCommand: .blockingMove
        case .rightMissing: .waitRefused(error)
        default: nil
        }
    }

    mutating func reset() { state = .busy }

    var isPolling: Bool { nextPoll != nil }

    var nextPoll: Instant? {
        if case .polling(let next, _, _) = state { next } else { nil }
    }

    /// Whether a claim makes sense now.
    func isWorthClaiming(at now: Instant) -> Bool {
        switch state {
        case .busy: true
        case .empty, .armed: false
        case .polling(let next, _, _): now >= next
        }
    }
}
