import Platform

/// A host and a port: `api.push.apple.com:443`, `127.0.0.1:6379`, `[::1]:443`.
struct HostAndPort: Sendable, Equatable {
    var host: String
    var port: Int

    init(_ host: String, _ port: Int) {
        self.host = host
        self.port = port
    }

    /// `nil` unless the text is a host, a colon and a port from 1 to 65535; an IPv6 address has brackets.
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

    /// `metrics_listen`: port 0 is any free one, and the host `*` is every address of the machine.
    init?(listening text: String) {
        self.init(text, ports: 0...65535)
        if host == "*" { host = Listener.everyAddress }
    }

    /// Whether a listener at this address accepts connections to every address of the machine.
    var isWildcard: Bool { SocketAddress.numeric(host: host, port: port)?.isUnspecified ?? false }

    /// The same text that `init(_:)` reads.
    var text: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
}
