internal import Threads

/// What a session is told by its pool.
enum SessionOrder: Sendable {
    /// Take no more, hear out what is in flight, close.
    case drain
    /// Close now.
    case end
}
