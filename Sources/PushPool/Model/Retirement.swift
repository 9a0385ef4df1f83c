/// Why a session that still worked was replaced by another.
public enum Retirement: Sendable, Equatable {
    /// The server ignored a request, though it lives (jchambers/pushy#773).
    case requestIgnored
    /// Three answers of 500 in a row: a server that has lost its way is left until it is replaced (docs/design.md, "Sessions").
    case serverErrors
    /// It has had as many requests as HTTP/2 has stream identifiers.
    case usedUp
    /// An answer said so, as GOAWAY would: 400 `IdleTimeout`, 503 `Shutdown`.
    case farewell
}
