import Glibc
public import Platform

/// The reason why the server cannot start.
public enum ListenError: Error, Sendable, Equatable, CustomStringConvertible {
    case socket(SocketError)
    case thread(ThreadError)

    /// Without the address, which the caller knows.
    public var description: String {
        switch self {
        case .socket(.system(_, let code)): unsafe String(cString: strerror(code))
        case .socket(let error): error.description
        case .thread(let error): error.description
        }
    }
}
