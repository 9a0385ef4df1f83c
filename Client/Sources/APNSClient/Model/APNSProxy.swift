internal import PushPool

/// A proxy that connects to APNs by HTTP CONNECT. TLS passes through it unread.
///
/// Its description never shows the password.
public struct APNSProxy: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let proxy: HTTPProxy

    /// A proxy, with its user and password if it requires them.
    public init(host: String, port: Int, user: String? = nil, password: String? = nil) {
        proxy = HTTPProxy(host: host, port: port, user: user, password: password)
    }

    /// `http://proxy.example:3128`
    public var description: String { proxy.description }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }

    func checked() throws(APNSError) -> HTTPProxy {
        guard APNSConfiguration.isHost(proxy.host) else { throw .invalid("the host of the proxy is not a name") }
        guard (1...65_535).contains(proxy.port) else {
            throw .invalid("the port \(proxy.port) of the proxy is out of range; expected 1 to 65535")
        }
        // RFC 7617, 2: the first colon ends the user.
        if proxy.user?.contains(":") == true { throw .invalid("the user of the proxy contains a colon") }
        return proxy
    }
}
