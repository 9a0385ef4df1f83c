import PushPool
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

extension String {
    /// A host's name or address, an IPv6 address without its brackets; `nil` where there is a port or anything else beside.
    var bareHost: String? {
        // A colon stands in IPv6 addresses alone, and there at least twice; behind a percent sign is the interface (RFC 4007).
        func isIPv6(_ text: Substring) -> Bool {
            let address = text.prefix { $0 != "%" }
            return address.count { $0 == ":" } >= 2 && address.allSatisfy { $0.isHexDigit || $0 == ":" || $0 == "." }
        }
        guard isWord else { return nil }
        if hasPrefix("["), hasSuffix("]") {
            let address = dropFirst().dropLast()
            return isIPv6(address) ? String(address) : nil
        }
        return contains { ":[]/@".contains($0) } && !isIPv6(self[...]) ? nil : self
    }
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

extension HTTPProxy {
    /// What an address lacks that `init(url:)` does not take, without a word of it.
    static func lack(in text: String) -> String {
        if !text.lowercased().hasPrefix("http://") { return "does not begin with http://" }
        if !text.isWord { return "has a space or another character that no address has" }
        if text.contains("@") { return "has no host and port behind the @, or no user before it (%40 stands for an @ in a password)" }
        return "has no host and port behind http://"
    }

    /// `http://[user:pass@]host:port`, with `%40` and the like for what has a meaning of its own in an address (RFC 3986).
    init?(url text: String) {
        let scheme = "http://"
        guard text.lowercased().hasPrefix(scheme), text.isWord else { return nil }
        var rest = text.dropFirst(scheme.count)
        if rest.last == "/" { rest.removeLast() }
        var user: String?
        var password: String?
        if let at = rest.lastIndex(of: "@") {
            let words = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = words[0].withoutPercents, !name.isEmpty, !name.contains(":") else { return nil }
            user = name
            if words.count > 1 {
                guard let secret = words[1].withoutPercents else { return nil }
                password = secret
            }
            rest = rest[rest.index(after: at)...]
        }
        guard let address = HostAndPort(String(rest)) else { return nil }
        self.init(host: address.host, port: address.port, user: user, password: password)
    }
}

extension Substring {
    /// `nil` where a percent sign stands before no two hex digits, or what is left is no text.
    fileprivate var withoutPercents: String? {
        var bytes: [UInt8] = []
        var rest = utf8
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            let digits = rest.prefix(2).compactMap { Character(UnicodeScalar($0)).hexDigitValue }
            guard digits.count == 2 else { return nil }
            bytes.append(UInt8(digits[0] << 4 | digits[1]))
            rest = rest.dropFirst(2)
        }
        guard bytes.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { return nil }
        return String(validating: bytes, as: UTF8.self)
    }
}
