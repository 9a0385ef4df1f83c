/// One list's part of the settings, in the units of this module.
public struct QueueSettings: Sendable, Equatable {
    /// The server with the list. Any node of a Redis Cluster suffices: it names the right one.
    public enum Server: Sendable, Equatable {
        case tcp(host: String, port: Int)
        case unix(path: String)
        /// The master of this name, as Sentinels know it. At least one.
        case sentinels([Endpoint], master: String)
    }

    /// Whether a crash may lose a push or send it twice.
    public enum DeliveryMode: Sendable, Equatable {
        case atLeastOnce
        /// Plain BLPOP as in the original: a crash loses the popped jobs.
        case atMostOnce

        /// Whether Redis keeps the jobs of a worker until they are settled.
        var keepsJobs: Bool { self == .atLeastOnce }
    }

    /// The list that producers RPUSH to.
    public var list: String
    public var server: Server
    public var database: Int
    public var username: String?
    /// A secret: kept out of every description, error and log.
    public var password: String?
    /// For Sentinels that ask for a user of their own.
    public var sentinelUsername: String?
    /// A secret. `nil`: Sentinels that ask for a password get that of the server.
    public var sentinelPassword: String?
    public var mode: DeliveryMode
    /// The silence after which others take over a worker's jobs.
    public var lease: Duration
    /// A stream with one entry for each final outcome.
    public var resultsKey: String?
    public var resultsMax: Int
    /// Dead letters kept; 0 keeps all.
    public var deadLetterMax: Int
    /// Feedback entries kept; 0 keeps all.
    public var feedbackMax: Int
    /// The pause between two updates of a channel; `nil` follows APNs' responses.
    public var channelPace: Duration?
    /// Whether the owner gets the event `apps` before it is first connected.
    public var readsApps = false
    /// The limit for a dial, and for a reply, after which the connection counts as lost.
    public var timeout: Duration = .milliseconds(2100)

    public init(
        list: String, server: Server, database: Int = 0, username: String? = nil, password: String? = nil,
        mode: DeliveryMode = .atLeastOnce, lease: Duration = .seconds(15), resultsKey: String? = nil,
        resultsMax: Int = 1_000_000, deadLetterMax: Int = 0, feedbackMax: Int = 0
    ) {
        self.list = list
        self.server = server
        self.database = database
        self.username = username
        self.password = password
        self.mode = mode
        self.lease = lease
        self.resultsKey = resultsKey
        self.resultsMax = resultsMax
        self.deadLetterMax = deadLetterMax
        self.feedbackMax = feedbackMax
    }

    /// Adopts the settings that may change while the queue runs: the user from the next connection on; results and the limits of
    /// dead letters and feedback, and the pace of channels, from the next settlement on.
    mutating func adopt(_ new: QueueSettings) {
        (username, password) = (new.username, new.password)
        (sentinelUsername, sentinelPassword) = (new.sentinelUsername, new.sentinelPassword)
        (resultsKey, resultsMax) = (new.resultsKey, new.resultsMax)
        (deadLetterMax, feedbackMax) = (new.deadLetterMax, new.feedbackMax)
        channelPace = new.channelPace
    }
}

/// An address of a server.
public enum Endpoint: Sendable, Hashable, CustomStringConvertible {
    case tcp(host: String, port: Int)
    case unix(path: String)

    /// `redis.example.com:6379`, `[::1]:6379` or `unix:/run/redis.sock`.
    public var description: String {
        switch self {
        case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// - Parameter other: its host is meant where Redis leaves the host out, or does not know it (`?`).
    init?(host: String, port: Int, besides other: Endpoint?) {
        guard (1...65535).contains(port) else { return nil }
        if !host.isEmpty && host != "?" {
            self = .tcp(host: host, port: port)
        } else if case .tcp(let known, _) = other {
            self = .tcp(host: known, port: port)
        } else {
            return nil
        }
    }

    /// The node that a redirection names. `nil` when it names none.
    init?(_ node: ErrorReply.Node?, from other: Endpoint?) {
        guard let node else { return nil }
        self.init(host: node.host, port: node.port, besides: other)
    }

    /// The most nodes of a cluster that are kept. Redis recommends no larger cluster (cluster specification).
    static let mostNodes = 1000

    /// Returns the nodes that the reply to CLUSTER SLOTS names. Replicas are included: one of them may be the next master.
    static func nodes(_ slots: [RedisReply], besides other: Endpoint?) -> [Endpoint] {
        var nodes: [Endpoint] = []
        for node in slots.flatMap({ $0.items?.dropFirst(2) ?? [] }) {
            guard let parts = node.items, parts.count >= 2, let port = parts[1].integer,
                let endpoint = Endpoint(host: parts[0].text ?? "", port: Int(clamping: port), besides: other)
            else { continue }
            if nodes.count >= mostNodes { break }
            if !nodes.contains(endpoint) { nodes.append(endpoint) }
        }
        return nodes
    }
}
