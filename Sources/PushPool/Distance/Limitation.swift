/// The limit that keeps waiting pushes in the queue.
public enum Limitation: Int, Sendable, CaseIterable {
    /// The peer's or our own limit on open streams.
    case streams
    /// The send windows of the connections (RFC 9113, 5.2).
    case window
    /// TLS or TCP takes no more bytes.
    case socket
    case rateLimit
}
