/// The reason for replacing a session that still worked.
public enum Retirement: Sendable, Equatable {
    /// The server ignored a request although it is alive (jchambers/pushy#773).
    case requestIgnored
    /// Three consecutive responses with status 500: the server's fault may last until it is replaced (docs/design.md,
    /// "Sessions").
    case serverErrors
    /// The session has used up its stream ids.
    case usedUp
    /// The server admits no more bytes although no request is open: no WINDOW_UPDATE came for the time limit of a request.
    case noWindow
    /// A response announced the end, as GOAWAY does: 400 `IdleTimeout`, 503 `Shutdown`.
    case shutdownAnnounced
    /// The time for sending ended (`SessionPool.allowSending`) before its requests were written: they must not leave.
    case sendingEnded
}
