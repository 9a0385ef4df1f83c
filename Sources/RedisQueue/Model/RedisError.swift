public import Platform

/// The reason why a call to Redis has no usable reply. No case holds a command's arguments.
public enum RedisError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Step: Sendable { case connecting, tlsHandshake, reply, deadLetters, jobs }

    /// The error of one Sentinel that named no master.
    public struct SentinelFailure: Sendable, Equatable {
        public var sentinel: Endpoint
        public var error: RedisError

        public init(sentinel: Endpoint, error: RedisError) {
            self.sentinel = sentinel
            self.error = error
        }
    }

    case socket(SocketError)
    /// The server closed the connection.
    case closed
    case timedOut(Step)
    /// The bytes or the reply do not follow the Redis protocol.
    case notRedis(String)
    case reply(ErrorReply)
    /// AUTH was refused. Only the code is kept: old servers repeat the arguments. `isNeedless`: the server has no password.
    case authenticationRefused(code: String, isNeedless: Bool)
    /// The server does not know the command SENTINEL.
    case notASentinel
    /// A Sentinel does not know the name of the master.
    case unknownMaster
    /// Sentinel named a server that is no master, or whose role is unknown (`nil`).
    case notMaster(Endpoint?, role: String?)
    /// None of the Sentinels names a master of this name.
    case noMaster(String, [SentinelFailure])

    public var description: String {
        switch self {
        case .socket(let error): return error.description
        case .closed: return "the connection was closed by Redis"
        case .timedOut(.connecting): return "connecting to Redis: no response in time"
        // A plain Redis takes the beginning of a handshake for half a command, and waits for the rest.
        case .timedOut(.tlsHandshake): return "the TLS handshake (does Redis speak TLS at this port?): no response in time"
        case .timedOut(.reply): return "Redis: no response in time"
        case .timedOut(.deadLetters): return "the dead letters change faster than they can be read"
        case .timedOut(.jobs): return "the jobs change faster than they can be read"
        case .notRedis(let reason): return "not the Redis protocol: \(reason)"
        case .reply(let reply): return reply.description
        case .authenticationRefused(let code, let isNeedless):
            return "AUTH was refused (\(code)): \(isNeedless ? "this Redis has no password" : "wrong user name or password?")"
        case .notASentinel: return "this server is not a Sentinel"
        case .unknownMaster: return "this Sentinel does not know the master"
        case .notMaster(let server, let role):
            let reported = role == "slave" ? "the role replica" : role.map { "the role \($0)" } ?? "no role"
            return "\(server.map { "\($0)" } ?? "the server") is the master according to Sentinel, but reports \(reported)"
        case .noMaster(let name, let failures):
            let reasons = failures.map { "\($0.sentinel): \($0.error)" }.joined(separator: "; ")
            return "no Sentinel names a master for \"\(name)\" (\(reasons))"
        }
    }

    static func authenticationRefused(by error: ErrorReply) -> RedisError {
        .authenticationRefused(code: String(error.code), isNeedless: error.kind == .passwordNeedless)
    }

    /// Whether only an operator can remove the cause: a wrong password, a missing right, a wrong type at a key.
    public var isRefusal: Bool {
        switch self {
        case .reply(let reply): reply.isRefusal
        case .authenticationRefused, .notASentinel, .unknownMaster: true
        case .noMaster(_, let failures): failures.allSatisfy(\.error.isRefusal)
        case .socket, .closed, .timedOut, .notRedis, .notMaster: false
        }
    }

    /// The error that an operator has to remove: of several Sentinels, the most telling one.
    public var cause: RedisError {
        guard case .noMaster(_, let failures) = self else { return self }
        return failures.first { $0.error != .notASentinel }?.error ?? failures.first?.error ?? self
    }

    /// Whether a server has replied, so that no other address of its host need be tried.
    public var isFromServer: Bool {
        switch self {
        case .reply, .authenticationRefused, .notMaster: true
        default: false
        }
    }
}
