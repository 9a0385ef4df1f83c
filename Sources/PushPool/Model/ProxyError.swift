internal import JSONBytes

/// The reason why a proxy opened no tunnel, for the operator.
enum ProxyError: Error, Equatable, CustomStringConvertible {
    /// 407
    case credentials
    case status(Int, String)
    /// The response is not HTTP.
    case nonsense
    case closed

    var description: String {
        switch self {
        case .credentials: "407: it requires a user and a password, or rejects the given ones"
        case .status(let status, let phrase): "it refused CONNECT: \(status)\(phrase.isEmpty ? "" : " \(phrase)")"
        case .nonsense: "its response is not HTTP"
        case .closed: "it closed the connection without a response to CONNECT"
        }
    }
}
