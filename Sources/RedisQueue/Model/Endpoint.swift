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
