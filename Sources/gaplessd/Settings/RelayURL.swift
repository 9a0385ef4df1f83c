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
        guard !authority.isEmpty, !authority.contains("@"), !rest.contains("#") else { return nil }
        if let address = HostAndPort(String(authority)) {
            self.address = address
        } else if let host = String(authority).bareHost {
            address = HostAndPort(host, isSecure ? 443 : 80)
        } else {
            return nil
        }
        target = path.hasPrefix("/") ? String(path) : "/" + path
    }

    /// The value of the Host header (RFC 9110, 7.2).
    var authority: String {
        let host = address.host.contains(":") ? "[\(address.host)]" : address.host
        return address.port == (isSecure ? 443 : 80) ? host : "\(host):\(address.port)"
    }

    /// The address without path and query, which are the secret of many receivers.
    var shown: String { "\(isSecure ? "https" : "http")://\(authority)" }

    /// The text that `init(_:)` reads.
    var text: String { "\(isSecure ? "https" : "http")://\(authority)\(target)" }
}
