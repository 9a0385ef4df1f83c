internal import Threads

/// An order from the pool to one of its sessions.
enum SessionOrder: Sendable {
    /// Accept no more work, wait for the open streams, then close.
    case drain
    /// Close immediately.
    case end
}
