public import Sockets

/// Why a call to Redis did not end in a reply that can be used. No case ever holds a command's arguments.
public enum RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    case socket(SocketError)
    /// The server closed the connection.
    case closed
    case timedOut(String)
    /// What came is not the Redis protocol.
    case notRedis(String)
    /// The server's own refusal, its code first.
    case reply(String)
    /// None of the Sentinels names a master of this name: what each says. A refusal when only an operator can mend it at all of them.
    case noMaster(String, why: [String], isRefusal: Bool)

    public var description: String {
        switch self {
        case .socket(let error): error.description
        case .closed: "the connection was closed by Redis"
        case .timedOut(let what): "\(what): no answer in time"
        case .notRedis(let why): "not the Redis protocol: \(why)"
        case .reply(let text): text
        case .noMaster(let name, let why, _): "no Sentinel names a master for \"\(name)\" (\(why.joined(separator: "; ")))"
        }
    }

    /// Whether only somebody with rights on the server can mend it (a wrong password, a missing right, a wrong type at a key);
    /// everything else may pass.
    public var isRefusal: Bool {
        switch self {
        case .reply(let text): ServerFault(text) == .refusal
        case .noMaster(_, _, let isRefusal): isRefusal
        case .socket, .closed, .timedOut, .notRedis: false
        }
    }
}

/// What an error reply means for who sent the call.
enum ServerFault: Equatable {
    /// `SCRIPT FLUSH`, a restart, a failover: the script is sent again in full.
    case scriptMissing
    /// Only somebody with rights on the server can mend it: a wrong password, a missing right, a wrong type at a key.
    case refusal
    /// A Redis Cluster has the key at another node, which the text names. The call was not carried out.
    case moved
    /// LOADING, BUSY, READONLY, MISCONF, TRYAGAIN and everything unforeseen: state is kept, and it is tried again.
    case passing

    init(_ text: String) {
        if text.hasPrefix("NOSCRIPT") {
            self = .scriptMissing
        } else if text.hasPrefix("MOVED ") {
            self = .moved
        } else if ServerFault.refusals.contains(where: text.contains) {
            // Not only as a prefix: before Redis 7 an error inside a script was wrapped in "ERR Error running script".
            self = .refusal
        } else {
            self = .passing
        }
    }

    private static let refusals = [
        "NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "invalid password", "can't run this command", "can't access at least one",
        "DB index is out of range", "AUTH was refused", "CROSSSLOT", "SELECT is not allowed in cluster mode",
        "knows no master of this name", "is no Sentinel",
    ]

    /// Whether a Redis Cluster is busy with itself: the call was not carried out, and may be a moment later.
    static func isClusterAtWork(_ text: String) -> Bool {
        ["TRYAGAIN", "CLUSTERDOWN", "ASK "].contains(where: text.hasPrefix)
    }

    /// An error reply fit for a log: Redis quotes the arguments of an unknown command, which may be a job or a password.
    static func withoutArguments(_ text: String) -> String {
        if text.hasPrefix("CROSSSLOT") {
            return text + " (in a Redis Cluster the keys beside a list must be in its slot)"
        }
        if text.hasPrefix("ASK ") || text.hasPrefix("TRYAGAIN") {
            return text + " (the list's slot is on its way to another node of the cluster, and waits until it is there)"
        }
        if let cut = text.firstRange(of: "with args") { return text[..<cut.lowerBound] + "…" }
        // What Redis 7 adds to an error inside a script: the script's hash and line, which tell an operator nothing.
        guard let cut = text.firstRange(of: " script: ") else { return text }
        return String(text[..<cut.lowerBound])
    }
}

extension String {
    /// The standard library has no substring search without Foundation or `_StringProcessing`.
    fileprivate func contains(_ other: String) -> Bool { firstRange(of: other) != nil }

    func firstRange(of other: String) -> Range<Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(other) { return start..<index(start, offsetBy: other.count) }
            formIndex(after: &start)
        }
        return nil
    }
}
