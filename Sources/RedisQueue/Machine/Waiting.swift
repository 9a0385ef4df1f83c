import Clocks

/// When to look for jobs, and how to sleep until there are some.
///
/// While the list has jobs, claims follow the cadence of their own. Once a claim has shown it to be empty, the second connection
/// waits with a blocking command; where Redis refuses that, it is asked again and again.
struct Waiting {
    enum State: Equatable {
        /// The list has jobs as far as we know.
        case busy
        /// A claim found it empty, and nobody waits yet.
        case empty
        /// The blocking command is under way.
        case armed
        /// The same, and the list was seen to have jobs all the same.
        case passed
        /// The blocking command is refused: claim again at `next`, and try to block again at `retry` (`nil`: never).
        case polling(next: Instant, pause: Duration, retry: Instant?)
    }

    private(set) var state = State.busy

    /// A claim has shown whether the list is empty now.
    mutating func claimed(drained: Bool, count: Int, now: Instant) {
        switch state {
        case .armed: break
        case .passed: if drained { state = .armed }
        case .polling(_, let pause, let retry):
            // An old Redis is polled every 5 ms while jobs trickle in, and every 50 ms when none do.
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

    /// The wait ended: something came, or only its time is over.
    mutating func woke(somethingCame: Bool) { state = somethingCame ? .busy : .empty }

    /// The wait was refused with this error.
    mutating func refused(_ error: String, now: Instant) {
        if error.hasPrefix("UNBLOCKED") {
            state = .busy
        } else if error.hasPrefix("OOM") {
            state = .polling(next: now + .milliseconds(20), pause: .milliseconds(10), retry: now + .seconds(1))
        } else if error.hasPrefix("ERR unknown command") {
            state = .polling(next: now + .milliseconds(5), pause: .milliseconds(5), retry: nil)
        } else {
            state = .polling(next: now + .milliseconds(50), pause: .milliseconds(50), retry: now + .seconds(5))
        }
    }

    /// What such an error tells of the server, where it will not pass by itself: a sentence for the operator.
    static func lack(_ error: String) -> String? {
        if error.hasPrefix("ERR unknown command") {
            "it has no BLMOVE (Redis 6.2 has): the list is asked every 5 to 50 ms instead"
        } else if error.hasPrefix("NOPERM") {
            "waiting for jobs is refused, and the list is asked every 50 ms instead (\(error))"
        } else {
            nil
        }
    }

    /// The list has jobs, whatever the blocking command knows of it.
    mutating func sawJobs() {
        switch state {
        case .armed: state = .passed
        case .empty: state = .busy
        case .busy, .passed, .polling: break
        }
    }

    mutating func reset() { state = .busy }

    /// Whether a claim makes sense now.
    func isWorthClaiming(at now: Instant) -> Bool {
        switch state {
        case .busy, .passed: true
        case .empty, .armed: false
        case .polling(let next, _, _): now >= next
        }
    }
}
