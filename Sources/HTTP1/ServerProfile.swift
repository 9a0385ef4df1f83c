/// The properties of a server that differ between programs.
public struct ServerProfile: Sendable, Equatable {
    /// The `Server` header of every response.
    public var name = StatusServer.name
    public var methods = ["GET", "HEAD"]
    /// The text for a request that names another host.
    public var hostRefusal = "This host is not in metrics_hosts.\n"
    /// The name of the server's thread.
    public var thread = "metrics"

    public init() {}
}
