internal import JSONBytes

/// The settings of one pool.
public struct PoolSettings: Sendable, Equatable {
    public var host: String
    public var port: Int
    /// A PEM bundle to trust in addition to the system's roots.
    public var extraRootsPath: String?
    /// The proxy, which then resolves the host's name.
    public var proxy: HTTPProxy?
    /// The number of sessions to keep open, and the most that the pool may open under load. If both are equal, it is fixed.
    public var sessions: Int
    public var mostSessions: Int
    /// Whether the pool chooses its size itself, up to `mostSessions`.
    public var isAutomatic = false
    /// The usual `mostSessions` of such a pool.
    public static let mostAutomaticSessions = 32
    /// The usual number of sessions of another one.
    public static let usualSessions = 2
    public static let usualRequestTimeout = Duration.seconds(15)
    /// The step from one number of sessions to the next.
    public var scale = PoolScale.incremental(1)
    /// The interval of looks at the load, the time for which they must agree, and the pause after each change.
    public var pollInterval: Duration = .milliseconds(200)
    public var minSustain: Duration = .seconds(2)
    public var settlePeriod: Duration = .seconds(5)
    /// The time limit for TCP, TLS and the peer's SETTINGS together.
    public var dialTimeout: Duration
    public var dialBackoff: Backoff
    /// The time limit for the response to one request.
    public var requestTimeout: Duration
    /// Silence before a PING on an idle session.
    public var keepAlive: Duration
    /// Silence before a PING while streams are open.
    public var busyKeepAlive: Duration = .seconds(15)
    /// The time limit for the response to a PING.
    public var pingTimeout: Duration = .seconds(10)
    /// Stream ids run out after 2^30 requests (RFC 9113, 5.1.1); a session retires a little earlier.
    var requestsPerSession = (1 << 30) - 2000
    /// The time without ENHANCE_YOUR_CALM after which the limit on pushes per second doubles.
    var quietTime: Duration = .seconds(60)
    /// Our own limit on open streams of one session; the peer's SETTINGS may be lower.
    public var maxConcurrentStreams: Int
    /// Whether `Outcome.delivered` carries `apns-id`, which costs a String per push.
    public var collectsAPNSIDs: Bool
    /// The topic of the settings, for pushes whose jobs name none. Each session sends that of its own settings, also while a
    /// credential with another topic is on trial. `nil` leaves the topic of the push.
    package var topic: String?
    /// Whether each delivery carries its times.
    public var recordsTimes = false

    public init(
        host: String, port: Int, extraRootsPath: String? = nil, proxy: HTTPProxy? = nil, sessions: Int = usualSessions,
        dialTimeout: Duration = .seconds(10), dialBackoff: Backoff = Backoff(), requestTimeout: Duration = usualRequestTimeout,
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

/// The step from one number of sessions to the next.
public enum PoolScale: Sendable, Equatable {
    case constant
    /// This many more or fewer, at least 1.
    case incremental(Int)
    /// This many times as many, and at least one more; above 1.
    case exponential(Double)

    func larger(than count: Int) -> Int {
        switch self {
        case .constant: count
        case .incremental(let step): count + step
        case .exponential(let factor): max(count + 1, Int(Double(count) * factor))
        }
    }

    func smaller(than count: Int) -> Int {
        switch self {
        case .constant: count
        case .incremental(let step): count - step
        case .exponential(let factor): min(count - 1, Int(Double(count) / factor))
        }
    }
}

/// A proxy that connects to APNs by HTTP CONNECT (RFC 9110, 9.3.6). TLS passes through it unread.
///
/// Its description never shows the password.
public struct HTTPProxy: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var host: String
    public var port: Int
    public var user: String?
    private var password: String?

    public init(host: String, port: Int, user: String? = nil, password: String? = nil) {
        self.host = host
        self.port = port
        self.user = user
        self.password = password
    }

    /// `http://proxy.example:3128`
    public var description: String { "http://\(host.contains(":") ? "[\(host)]" : host):\(port)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// Returns the request that opens a tunnel to `host:port`.
    func request(host: String, port: Int) -> [UInt8] {
        let authority = "\(host.contains(":") ? "[\(host)]" : host):\(port)"
        var text = "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n"
        if let user {
            let secret = String(decoding: Base64.encode(Array("\(user):\(password ?? "")".utf8)), as: UTF8.self)
            text += "Proxy-Authorization: Basic \(secret)\r\n"
        }
        return Array((text + "\r\n").utf8)
    }
}
