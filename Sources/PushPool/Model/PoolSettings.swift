/// One pool's part of the settings, in the units of this module.
public struct PoolSettings: Sendable, Equatable {
    public var host: String
    public var port: Int
    /// PEM bundle trusted beside the system's roots.
    public var extraRootsPath: String?
    /// The way to the host, where there is no straight one. The proxy then looks the host's name up.
    public var proxy: HTTPProxy?
    /// Sessions kept open, and how many there may be while those are too few; no more where that is the same.
    public var sessions: Int
    public var mostSessions: Int
    /// From one number of sessions to the next.
    public var scale = PoolScale.incremental(1)
    /// How often the load is looked at, how long it must stay the same for a decision, and how long each one is left alone.
    public var pollInterval: Duration = .milliseconds(200)
    public var minSustain: Duration = .seconds(2)
    public var settlePeriod: Duration = .seconds(5)
    /// TCP, TLS and the peer's SETTINGS together.
    public var dialTimeout: Duration
    public var dialBackoff: Backoff
    /// How long one request may wait for its answer.
    public var requestTimeout: Duration
    /// Silence before a PING on an idle session.
    public var keepAlive: Duration
    /// Silence before a PING while streams are open.
    public var busyKeepAlive: Duration = .seconds(15)
    /// How long a PING may go unanswered.
    public var pingTimeout: Duration = .seconds(10)
    /// Stream identifiers run out after 2^30 requests (RFC 9113, 5.1.1); a session retires a little before.
    var requestsPerSession = (1 << 30) - 2000
    /// From ENHANCE_YOUR_CALM to twice the pushes a second that it has left us.
    var quietTime: Duration = .seconds(60)
    /// Our own ceiling on open streams of one session, under the peer's SETTINGS.
    public var maxConcurrentStreams: Int
    /// Whether `Outcome.delivered` carries `apns-id`: costs a String for each push.
    public var collectsAPNSIDs: Bool

    public init(
        host: String, port: Int, extraRootsPath: String? = nil, proxy: HTTPProxy? = nil, sessions: Int = 2,
        dialTimeout: Duration = .seconds(10), dialBackoff: Backoff = Backoff(), requestTimeout: Duration = .seconds(15),
        keepAlive: Duration = .seconds(60), maxConcurrentStreams: Int = 1000, collectsAPNSIDs: Bool = false
    ) {
        self.host = host
        self.port = port
        self.extraRootsPath = extraRootsPath
        self.proxy = proxy
        self.sessions = sessions
        mostSessions = sessions
        self.dialTimeout = dialTimeout
        self.dialBackoff = dialBackoff
        self.requestTimeout = requestTimeout
        self.keepAlive = keepAlive
        self.maxConcurrentStreams = maxConcurrentStreams
        self.collectsAPNSIDs = collectsAPNSIDs
    }
}
