import RedisQueue

/// A host and a port as people write them: `api.push.apple.com:443`, `127.0.0.1:6379`, `[::1]:443`.
struct HostAndPort: Sendable, Equatable {
    var host: String
    var port: Int

    init(_ host: String, _ port: Int) {
        self.host = host
        self.port = port
    }

    /// `nil` unless the text is a host, a colon and a port from 1 to 65535; an IPv6 address stands in brackets.
    init?(_ text: String, ports: ClosedRange<Int> = 1...65535) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        var host = text[..<colon]
        guard digits.allSatisfy({ $0.isASCII && $0.isNumber }), let port = Int(digits), ports ~= port else { return nil }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard host.contains(":") else { return nil }
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty, String(host).isWord, !host.contains(where: { "[]/@".contains($0) }) else { return nil }
        self.init(String(host), port)
    }

    /// `metrics_listen`: port 0 is any free one.
    init?(listening text: String) { self.init(text, ports: 0...65535) }

    /// As people write it.
    var text: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}

extension String {
    /// Printable ASCII without spaces, and not empty: fit for a header and for a host name.
    var isWord: Bool { !isEmpty && utf8.allSatisfy { 0x21...0x7E ~= $0 } }
}

/// What `apns_server` means.
struct APNSServer: Sendable, Equatable {
    var address: HostAndPort
    /// Whether it was one of the binary gateways that Apple switched off on 2021-03-31.
    var isRetired = false

    private static let production = HostAndPort("api.push.apple.com", 443)
    private static let sandbox = HostAndPort("api.sandbox.push.apple.com", 443)

    init?(_ text: String) {
        switch text {
        case "production": address = Self.production
        case "sandbox": address = Self.sandbox
        case "gateway.push.apple.com:2195": (address, isRetired) = (Self.production, true)
        case "gateway.sandbox.push.apple.com:2195": (address, isRetired) = (Self.sandbox, true)
        default:
            guard let other = HostAndPort(text) else { return nil }
            address = other
        }
    }
}

extension QueueSettings.Server {
    /// `redis_netaddress`: `host:port`, `tcp:host:port` or `unix:/path`, the path as it stands.
    init?(netAddress text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst("unix:".count))
            if path.isEmpty { return nil }
            self = .unix(path: path)
        } else {
            let address = text.hasPrefix("tcp:") ? String(text.dropFirst("tcp:".count)) : text
            guard let address = HostAndPort(address) else { return nil }
            self = .tcp(host: address.host, port: address.port)
        }
    }
}
