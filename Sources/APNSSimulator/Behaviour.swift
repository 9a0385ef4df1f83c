/// How the simulator behaves beside the plain rules. Can be changed while it runs; a change reaches connections that are
/// open, unless a line says otherwise.
public struct Behaviour: Sendable, Equatable {
    /// What a new connection hears first.
    public enum Greeting: Sendable, Equatable {
        case settings
        /// Not one byte of HTTP/2, then or later.
        case nothing
        /// This instead of SETTINGS, and the end.
        case goAway(GoAway)
    }

    public var script = Script()
    /// For connections that are new.
    public var greeting = Greeting.settings
    /// MAX_CONCURRENT_STREAMS: at once with a certificate, after the first accepted push with a token.
    public var streamLimit: UInt32 = 1000
    /// MAX_CONCURRENT_STREAMS of a connection without certificate until its first accepted push.
    public var tokenStreamLimit: UInt32 = 1
    /// The limit falls to 1 after an answer of 4xx but 410, and comes back with the next 200 (seen until 2020).
    public var dropsLimitAfterRejection = false
    /// Every so many requests of a connection it says GOAWAY, and answers what it has seen. 0 is never.
    public var goAwayEvery = 0
    /// Nobody listens on the port: a dial gets ECONNREFUSED.
    public var refusesConnections = false
    /// Neither reads nor writes nor accepts: the half-open connection.
    public var isFrozen = false
    /// PINGs get no ACK.
    public var ignoresPings = false
    /// Windows are never enlarged: a client can send 65,535 bytes in all on a connection. For connections that are new.
    public var withholdsWindowUpdates = false

    public init() {}
}
