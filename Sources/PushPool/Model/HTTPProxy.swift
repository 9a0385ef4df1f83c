internal import JSONBytes

/// A proxy that opens a way to APNs when it is asked by HTTP CONNECT (RFC 9110, 9.3.6). TLS goes through it unread.
///
/// Its description never shows the password.
public struct HTTPProxy: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    public var host: String
    public var port: Int
    public var user: String?
    private var password: String?

    public init(host: String, port: Int, user: String? = nil, password: String? = nil) {
        self.host = host
        self.port = port
        self.user = user
        self.password = password
    }

    /// `http://proxy.example:3128`
    public var description: String { "http://\(host.contains(":") ? "[\(host)]" : host):\(port)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// What opens the way to `host:port`.
    func request(host: String, port: Int) -> [UInt8] {
        let authority = "\(host.contains(":") ? "[\(host)]" : host):\(port)"
        var text = "CONNECT \(authority) HTTP/1.1\r\nHost: \(authority)\r\n"
        if let user {
            let secret = String(decoding: Base64.encode(Array("\(user):\(password ?? "")".utf8)), as: UTF8.self)
            text += "Proxy-Authorization: Basic \(secret)\r\n"
        }
        return Array((text + "\r\n").utf8)
    }
}

/// What a proxy answers to CONNECT, byte by byte as it comes.
struct ProxyAnswer {
    enum Verdict: Equatable {
        /// The way is open: what comes next is the server's.
        case open
        case refused(ProxyFault)
    }

    /// A proxy may explain itself, but not for ever.
    static let mostBytes = 16 << 10

    private var head: [UInt8] = []

    /// Takes in one byte; the verdict once the head of the answer is complete.
    ///
    /// Byte by byte, because the first byte behind the head belongs to TLS.
    mutating func receive(_ byte: UInt8) -> Verdict? {
        head.append(byte)
        if head.count > Self.mostBytes { return .refused(.nonsense) }
        guard byte == UInt8(ascii: "\n") else { return nil }
        guard head.suffix(4).elementsEqual("\r\n\r\n".utf8) || head.suffix(2).elementsEqual("\n\n".utf8) else { return nil }
        return verdict
    }

    private var verdict: Verdict {
        let line = String(decoding: head.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }, as: UTF8.self)
        let words = line.split(separator: " ", maxSplits: 2, omittingEmptySubsequences: false)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), words[1].utf8.count == 3, let status = Int(words[1]) else {
            return .refused(.nonsense)
        }
        switch status {
        case 200..<300: return .open
        case 407: return .refused(.credentials)
        default: return .refused(.status(status, words.count > 2 ? String(words[2].prefix(100)) : ""))
        }
    }
}

/// Why a proxy opens no way, in words for the operator.
enum ProxyFault: Error, Equatable, CustomStringConvertible {
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
