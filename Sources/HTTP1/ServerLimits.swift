/// The limits of a server: bytes, time and connections.
public struct ServerLimits: Sendable {
    /// Bytes of request line, headers and body together. Browsers send less than 2 KiB, with cookies of other ports up to 8
    /// KiB.
    public var requestBytes = 16 << 10
    /// Open connections of all clients together: each costs a descriptor, of which the daemon needs some itself.
    public var connections = 64
    /// From the start of a connection to its end. A response takes 2 s at most, if Redis does not respond.
    public var timeout = Duration.seconds(10)
    /// The path that is served first, so that many other requests do not fail a liveness probe.
    public var urgentPath = "/healthz"

    public init() {}
}
