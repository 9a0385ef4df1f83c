import PushPool
import RedisQueue

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
        if text.contains("@") {
            return "has no host and port behind the @, or no user before it (%40 stands for an @ in a password)"
        }
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
