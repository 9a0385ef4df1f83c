internal import Platform

/// The progress of a client's shutdown.
///
///     phase      fact                            next
///     running    order                           draining
///     draining   order with an earlier limit     draining until then
///     draining   no send is left, or the limit   closing
///     any        the pool is closed              closed
struct Shutdown {
    private enum Phase {
        case running
        case draining(until: Instant)
        case closing, closed
    }

    private var phase = Phase.running

    /// Whether no send is accepted any more.
    var isOrdered: Bool { if case .running = phase { false } else { true } }
    /// Whether the pool is closed.
    var isComplete: Bool { if case .closed = phase { true } else { false } }
    /// The limit of the drain.
    var deadline: Instant? { if case .draining(let limit) = phase { limit } else { nil } }

    mutating func order(until limit: Instant) {
        switch phase {
        case .running: phase = .draining(until: limit)
        case .draining(let known): phase = .draining(until: min(known, limit))
        case .closing, .closed: break
        }
    }

    /// Begins to close the pool if the drain is over. Returns true once.
    mutating func endDrain(isIdle: Bool, now: Instant) -> Bool {
        guard case .draining(let limit) = phase, isIdle || limit <= now else { return false }
        phase = .closing
        return true
    }

    mutating func poolClosed() { phase = .closed }
}
