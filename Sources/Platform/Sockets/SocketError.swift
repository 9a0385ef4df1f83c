import Glibc

/// The reason why there is no connection, or why it ended.
public enum SocketError: Error, Sendable, Equatable, CustomStringConvertible {
    case badAddress(String)
    case unresolvable(host: String, reason: String)
    /// A system call failed: the action, and errno.
    case system(String, errno: CInt)
    case timedOut(String)
    /// A third party, such as a proxy, rejects the connection: a sentence.
    case refused(String)
    case tls(TLSError)

    public var description: String {
        switch self {
        case .badAddress(let why): why
        case .unresolvable(let host, let reason): "cannot resolve \(host): \(reason)"
        case .system(let call, let code): unsafe "\(call): \(String(cString: strerror(code)))"
        case .timedOut(let what): "\(what): timed out"
        case .refused(let why): why
        case .tls(let failure): failure.description
        }
    }
}
