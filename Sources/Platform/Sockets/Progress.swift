/// The result of a non-blocking read, write or handshake.
public enum Progress: Sendable, Equatable {
    /// This many bytes moved (0 for a complete handshake).
    case done(Int)
    case needsRead
    case needsWrite
    /// The peer closed the connection regularly.
    case closed
    case failed(SocketError)
}
