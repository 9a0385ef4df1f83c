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
        case .reply(let text): ErrorReply(text) == .refusal
        case .noMaster(_, _, let isRefusal): isRefusal
        case .socket, .closed, .timedOut, .notRedis: false
        }
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
