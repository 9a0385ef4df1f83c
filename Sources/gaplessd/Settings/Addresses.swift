import Platform
import PushPool
import RedisQueue

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
        guard digits.utf8.allSatisfy(\.isDigit), let port = Int(digits), ports ~= port else { return nil }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
            guard host.contains(":") else { return nil }
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty, String(host).isWord, !host.contains(where: { "[]/@".contains($0) }) else { return nil }
        self.init(String(host), port)
    }

    /// A URL may leave out the usual port.
    init?(authority text: String, usualPort: Int) {
        guard let address = HostAndPort(text) ?? text.bareHost.map({ HostAndPort($0, usualPort) }) else { return nil }
        self = address
    }

    /// `metrics_listen`: port 0 is any free one, and the host `*` is every address of the machine.
    init?(listening text: String) {
        self.init(text, ports: 0...65535)
        if host == "*" { host = Listener.everyAddress }
    }

    /// Whether a listener at this address accepts connections to every address of the machine.
    var isWildcard: Bool { SocketAddress.numeric(host: host, port: port)?.isUnspecified ?? false }

    /// The same text that `init(_:)` reads.
    var text: String { "\(hostInURL):\(port)" }
    /// The host, an IPv6 address with its brackets.
    var hostInURL: String { host.contains(":") ? "[\(host)]" : host }
}

/// The server that `apns_server` names.
struct APNSServer: Sendable, Equatable {
    let address: HostAndPort
    /// The name of Apple's server; `nil` for `host:port`.
    let name: String?
    /// The binary gateway that the settings name, if they name one. Apple shut them down on 2021-03-31.
    let retiredGateway: String?

    /// The servers of Apple: the first host is the usual one, and hosts need no port. Each has its own management API ("Sending
    /// channel management requests to APNs").
    private static let environments = [
        (
            name: "production", hosts: ["api.push.apple.com"], gateway: "gateway.push.apple.com:2195",
            broadcasts: "api-broadcast.push.apple.com", management: HostAndPort("api-manage-broadcast.push.apple.com", 2196)
        ),
        (
            name: "sandbox", hosts: ["api.sandbox.push.apple.com", "api.development.push.apple.com"],
            gateway: "gateway.sandbox.push.apple.com:2195", broadcasts: "api-broadcast.sandbox.push.apple.com",
            management: HostAndPort("api-manage-broadcast.sandbox.push.apple.com", 2195)
        ),
    ]

    /// `production` or `sandbox` for a host of Apple.
    static func environment(of host: String) -> String? {
        environments.first { $0.hosts.contains(host) || $0.broadcasts == host }?.name
    }

    /// `https://host` with or without a port and the path of APNs.
    private static func address(ofURL text: String) -> HostAndPort? {
        let scheme = "https://"
        guard text.lowercased().hasPrefix(scheme) else { return nil }
        let rest = text.dropFirst(scheme.count)
        let authority = String(rest.prefix { $0 != "/" })
        guard ["", "/", "/3/device", "/3/device/"].contains(rest.dropFirst(authority.count)) else { return nil }
        return HostAndPort(authority: authority, usualPort: 443)
    }

    /// The channel management API beside a server: Apple's, or the same address.
    static func management(of address: HostAndPort) -> HostAndPort {
        environments.first { $0.name == environment(of: address.host) }?.management ?? address
    }

    init?(_ text: String) {
        let lower = text.lowercased()
        if let known = Self.environments.first(where: { $0.name == text || $0.gateway == lower || $0.hosts.contains(lower) }) {
            (address, name) = (HostAndPort(known.hosts[0], 443), known.name)
            retiredGateway = known.gateway == lower ? text : nil
        } else {
            guard let other = HostAndPort(text) ?? Self.address(ofURL: text) else { return nil }
            let isURL = text.contains("://") && other.port == 443
            name = isURL ? Self.environments.first { $0.hosts.contains(other.host.lowercased()) }?.name : nil
            (address, retiredGateway) = (other, nil)
        }
    }
}

/// The address of `relay_url`: `https://host[:port]/path?query`, or the same with `http`.
struct RelayURL: Sendable, Equatable {
    /// The words after "expected" in a fault.
    static let expected = "a URL such as \"https://receiver.example/results\", without a user"

    let isSecure: Bool
    let address: HostAndPort
    /// Path and query as the request has them.
    let target: String

    /// `nil` for any other text, also for one with a user, a fragment, a space or a control character.
    init?(_ text: String) {
        guard text.isWord, let scheme = text.firstRange(of: "://") else { return nil }
        switch text[..<scheme.lowerBound].lowercased() {
        case "https": isSecure = true
        case "http": isSecure = false
        default: return nil
        }
        let rest = text[scheme.upperBound...]
        let authority = rest.prefix { $0 != "/" && $0 != "?" }
        let path = rest[authority.endIndex...]
        guard !authority.contains("@"), !rest.contains("#") else { return nil }
        guard let address = HostAndPort(authority: String(authority), usualPort: isSecure ? 443 : 80) else { return nil }
        self.address = address
        target = path.hasPrefix("/") ? String(path) : "/" + path
    }

    /// The value of the Host header (RFC 9110, 7.2).
    var authority: String { address.port == (isSecure ? 443 : 80) ? address.hostInURL : address.text }

    /// The address without path and query, which are the secret of many receivers.
    var shown: String { "\(isSecure ? "https" : "http")://\(authority)" }

    /// The text that `init(_:)` reads.
    var text: String { shown + target }
}

/// The value of `redis_url`: `redis://[user:password@]host[:port][/db]`, the same with `rediss` for TLS, or `unix:///path`.
struct RedisURL: Sendable, Equatable {
    /// The words after "expected" in a fault.
    static let expected = "\"redis://[user:password@]host[:port][/db]\", the same with rediss:// for TLS, or \"unix:///path\""

    /// The path of a socket is as the URL has it.
    var server: QueueSettings.Server
    let usesTLS: Bool
    private(set) var username: String?
    private(set) var password: Secret?
    /// `nil` if the URL names none.
    private(set) var database: Int?

    /// - Throws: a fault without any part of the URL.
    init(_ text: String) throws(SettingError) {
        let scheme = text.firstRange(of: "://")
        let name = scheme.map { text[..<$0.lowerBound].lowercased() }
        guard let scheme, let name, ["redis", "rediss", "unix"].contains(name) else {
            throw Self.lack("does not start with redis://, rediss:// or unix://")
        }
        guard text.isWord else { throw Self.lack("contains a space or another invalid character") }
        usesTLS = name == "rediss"
        var rest = text[scheme.upperBound...]
        if let mark = rest.firstIndex(of: "?"), !rest[mark...].contains("@") {
            let query = rest[rest.index(after: mark)...]
            guard query.hasPrefix("db="), let number = Self.database(query.dropFirst("db=".count)) else {
                throw Self.lack("has parameters other than ?db=N")
            }
            database = number
            rest = rest[..<mark]
        }
        // The path of a socket may contain the character as well.
        let place = name == "unix" ? rest.prefix { $0 != "/" } : rest
        if let at = place.lastIndex(of: "@") {
            (username, password) = try Self.user(rest[..<at])
            rest = rest[rest.index(after: at)...]
        }
        if name == "unix" {
            guard rest.hasPrefix("/") || rest.hasPrefix("${"), let path = rest.withoutPercents else {
                throw Self.lack("lacks an absolute path after unix://")
            }
            server = .unix(path: path)
            return
        }
        let authority = String(rest.prefix { $0 != "/" })
        let path = rest.dropFirst(authority.count + 1)
        guard let address = HostAndPort(authority: authority, usualPort: 6379) else {
            throw Self.lack("lacks a host, or has an invalid port")
        }
        server = .tcp(host: address.host, port: address.port)
        if path.isEmpty { return }
        guard database == nil, let number = Self.database(path) else {
            throw Self.lack("has a path that is not the number of a database")
        }
        database = number
    }

    private static func user(_ text: Substring) throws(SettingError) -> (name: String?, password: Secret?) {
        guard !text.contains(where: { "/?#".contains($0) }) else {
            throw lack("contains a /, ? or # before the @ (%2F, %3F and %23 in a password)")
        }
        let words = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard words.count == 2 else {
            throw lack("has a user without a password (a password alone follows a colon: redis://:password@host)")
        }
        guard let user = words[0].withoutPercents, let secret = words[1].withoutPercents else {
            throw lack("contains a % without two hex digits (%25 is a % in a password)")
        }
        if user.isEmpty && secret.isEmpty { return (nil, nil) }
        guard !secret.isEmpty else { throw lack("has an empty password") }
        return (user.isEmpty ? nil : user, Secret(secret))
    }

    private static func database(_ digits: Substring) -> Int? {
        guard !digits.isEmpty, digits.utf8.allSatisfy(\.isDigit), let number = Int(digits) else { return nil }
        return number <= Int(Int32.max) ? number : nil
    }

    private static func lack(_ words: String) -> SettingError { SettingError(text: "the URL \(words)") }
}

extension UInt8 {
    /// Of ASCII, as the following.
    var isDigit: Bool { 0x30...0x39 ~= self }
    var isUppercase: Bool { 0x41...0x5A ~= self }
    var isLowercase: Bool { 0x61...0x7A ~= self }
    var isLetterOrDigit: Bool { isDigit || isUppercase || isLowercase }
}

extension String {
    /// Whether the text is printable ASCII without spaces and not empty: valid in a header and as a host name.
    var isWord: Bool { !isEmpty && utf8.allSatisfy { 0x21...0x7E ~= $0 } }

    /// A host name or address, an IPv6 address without its brackets; `nil` with a port or anything else.
    var bareHost: String? {
        // Only IPv6 addresses contain a colon, at least twice; a percent sign precedes the interface (RFC 4007).
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

extension QueueSettings.Server {
    /// `redis_netaddress`: `host:port`, `tcp:host:port` or `unix:/path`, with the path unchanged.
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
    /// Returns why `init(url:)` refuses an address, without any part of the address.
    static func lack(in text: String) -> String {
        if !text.lowercased().hasPrefix("http://") { return "does not start with http://" }
        if !text.isWord { return "contains a space or another invalid character" }
        if text.contains("@") {
            return "lacks a host and a port after the @, or a user before it (%40 is an @ in a password)"
        }
        return "lacks a host and a port after http://"
    }

    /// `http://[user:pass@]host:port`, with percent-encoding (`%40` is an `@`, RFC 3986).
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
    /// The text with percent-encoding removed; `nil` for a percent sign without two hex digits, or an invalid result.
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
