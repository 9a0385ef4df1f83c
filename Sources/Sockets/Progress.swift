/// What a non-blocking read, write or handshake came to. Everybody who asks must face each.
public enum Progress: Sendable, Equatable {
    /// So many bytes moved (0 for a handshake that is complete).
    case done(Int)
    case needsRead
    case needsWrite
    /// The peer closed in good order.
    case closed
    case failed(SocketError)
}
