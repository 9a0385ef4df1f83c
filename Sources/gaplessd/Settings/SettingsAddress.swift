import PushPool
import RedisQueue

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
