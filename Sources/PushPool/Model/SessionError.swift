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

    /// The reason in words.
    package var text: String {
        switch self {
        case .dial(let text, _), .untrusted(let text): text
        case .goAway(let code, let reason):
            reason.isEmpty ? "GOAWAY, code \(code)" : "GOAWAY, code \(code): \(reason)"
        case .streamReset(let code): "stream reset, code \(code)"
        case .connectionLost(let text): text
        case .pingUnanswered: "PING unanswered"
        case .closedByUs: "closed by this process"
        case .retired(.requestIgnored): "a request got no response; replacing the session"
        case .retired(.serverErrors): "three responses of 500 in a row; replacing the session"
        case .retired(.shutdownAnnounced): "the server announced its shutdown in a response; replacing the session"
        case .retired(.noWindow): "the server admits no more bytes; replacing the session"
        case .retired(.sendingEnded): "the time for sending ended while requests waited for the socket; replacing the session"
        case .retired(.usedUp): "its stream identifiers are used up; replacing the session"
        }
    }
}
