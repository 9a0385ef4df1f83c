internal import JSONBytes

/// A proxy that connects to APNs by HTTP CONNECT (RFC 9110, 9.3.6). TLS passes through it unread.
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

    /// Returns the request that opens a tunnel to `host:port`.
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
