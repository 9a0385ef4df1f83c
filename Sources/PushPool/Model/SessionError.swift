/// The reason why a session ended or did not accept a notification.
public indirect enum SessionError: Sendable, Equatable {
    /// DNS, TCP or TLS failed: a text for the log. `isCredential` if TLS rejected our certificate.
    case dial(String, isCredential: Bool)
    /// TLS does not trust the server's chain or name: a text for the log.
    case untrusted(String)
    /// The peer's GOAWAY: the HTTP/2 error code, and its debug data as `reason` (JSON) or text.
    case goAway(code: UInt32, reason: String)
    /// RST_STREAM with this code on one stream.
    case streamReset(code: UInt32)
    /// The connection broke or closed: a text for the log.
    case connectionLost(String)
    /// A PING got no response.
    case pingUnanswered
    /// The pool closed the session to drain, reload or end.
    case closedByUs
    /// The pool closed the session because it was no longer useful.
    case retired(Retirement)
}
