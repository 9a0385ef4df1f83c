/// One place that can be dialled.
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

    /// Host and port as Redis tells them. Where it leaves the host out, or does not know it (`?`), the host of `other` is meant.
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

    /// Where `MOVED 3999 10.0.0.1:6381` points; an IPv6 address has no brackets there.
    init?(movedTo text: String, from other: Endpoint?) { self.init(word: "MOVED", in: text, from: other) }

    /// Where `ASK 3999 10.0.0.1:6381` points: only for the one command, and only after ASKING.
    init?(askedAt text: String, from other: Endpoint?) { self.init(word: "ASK", in: text, from: other) }

    private init?(word: String, in text: String, from other: Endpoint?) {
        let words = text.split(separator: " ")
        guard words.count == 3, words[0] == word, let colon = words[2].lastIndex(of: ":"),
            let port = Int(words[2][words[2].index(after: colon)...])
        else { return nil }
        self.init(host: String(words[2][..<colon]), port: port, besides: other)
    }

    /// Every node that the answer to CLUSTER SLOTS names, replicas too: one of them may be the next master.
    static func nodes(_ slots: [RedisReply], besides other: Endpoint?) -> [Endpoint] {
        var nodes: [Endpoint] = []
        for node in slots.flatMap({ $0.items?.dropFirst(2) ?? [] }) {
            guard let parts = node.items, parts.count >= 2, let port = parts[1].integer,
                let endpoint = Endpoint(host: parts[0].text ?? "", port: Int(clamping: port), besides: other)
            else { continue }
            if !nodes.contains(endpoint) { nodes.append(endpoint) }
        }
        return nodes
    }
}
