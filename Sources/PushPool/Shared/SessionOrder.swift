internal import Platform

/// An order from the pool to one of its sessions.
enum SessionOrder: Sendable {
    /// Accept no more work, wait for the open streams, then close.
    case drain
    /// Close immediately.
    case end
    /// Reset the streams of these notifications. Only for open sessions: a dial ends at any order.
    case cancel(Set<UInt64>)
}
