internal import JSONBytes

/// Why a proxy opens no way, in words for the operator.
enum ProxyError: Error, Equatable, CustomStringConvertible {
    /// 407
    case credentials
    case status(Int, String)
    /// It does not speak HTTP.
    case nonsense
    case closed

    var description: String {
        switch self {
        case .credentials: "407: it wants a user and a password, or others than those of apns_proxy"
        case .status(let status, let phrase): "it refused CONNECT: \(status)\(phrase.isEmpty ? "" : " \(phrase)")"
        case .nonsense: "it does not answer in HTTP"
        case .closed: "it closed the connection instead of an answer to CONNECT"
        }
    }
}
