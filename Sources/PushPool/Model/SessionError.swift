/// Why a session ended, or did not take a notification.
public indirect enum SessionError: Sendable, Equatable {
    /// DNS, TCP or TLS: text for the log. `isCredential` when TLS blames our certificate.
    case dial(String, isCredential: Bool)
    /// TLS does not trust the server's chain, or its name is another: text for the log.
    case untrusted(String)
    /// The peer's GOAWAY: HTTP/2 error code, and its debug data as `reason` (JSON) or text.
    case goAway(code: UInt32, reason: String)
    /// RST_STREAM with this code on one stream.
    case streamReset(code: UInt32)
    /// The connection broke or closed: text for the log.
    case connectionLost(String)
    /// A PING went unanswered.
    case pingUnanswered
    /// The pool closed the session itself: drain, reload, end.
    case closedByUs
    /// The session was of no more use, and the pool closed it.
    case retired(Retirement)
}
