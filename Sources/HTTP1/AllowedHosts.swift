internal import Platform

/// The hosts that a request may name. A page of another site that resolves its own name to this address (DNS rebinding) is
/// refused, so that it cannot read the figures through a visitor's browser.
struct AllowedHosts: Sendable {
    private var names: Set<String> = ["localhost"]
    private var addresses: Set<IPAddress> = []

    /// - Parameter hosts: names and addresses beside the loopback ones.
    init(_ hosts: [String]) {
        for host in hosts {
            if let address = IPAddress(host) { addresses.insert(address) } else { names.insert(Self.normalized(host)) }
        }
    }

    /// Returns the refusal of a request, or `nil` for one that names an allowed host.
    ///
    /// - Parameter local: the address that the client connected to.
    func refusal(of head: HTTPRequestHead, local: IPAddress?, _ profile: ServerProfile) -> StatusResponse? {
        // Browsers always send a Host header; HTTP/1.0 does not require it (RFC 9112, 3.2).
        let mayLackHeader = head.minorVersion == 0
        if mayLackHeader, head.hosts.isEmpty, head.authority == nil { return nil }
        guard head.hosts.count == 1 || mayLackHeader && head.hosts.isEmpty,
            let host = (head.authority ?? head.hosts.first).flatMap(Self.host)
        else {
            return StatusResponse(status: 400, text: "Exactly one valid Host header is required.\n")
        }
        return isAllowed(host, local) ? nil : StatusResponse(status: 421, text: profile.hostRefusal)
    }

    private func isAllowed(_ host: String, _ local: IPAddress?) -> Bool {
        guard let address = IPAddress(host) else { return names.contains(Self.normalized(host)) }
        return address.isLoopback || address == local || addresses.contains(address)
    }

    /// In lower case, without the dot at the end of a fully qualified name.
    private static func normalized(_ name: String) -> String {
        let name = name.lowercased()
        return name.hasSuffix(".") ? String(name.dropLast()) : name
    }

    /// The host of `host`, `host:port`, `[address]` or `[address]:port`; `nil` for any other text.
    private static func host(of value: String) -> String? {
        let host: Substring
        let rest: Substring
        if value.hasPrefix("["), let end = value.firstIndex(of: "]") {
            (host, rest) = (value[value.index(after: value.startIndex)..<end], value[value.index(after: end)...])
        } else {
            host = value.prefix { $0 != ":" }
            rest = value[host.endIndex...]
        }
        let port = rest.dropFirst()
        let hasGoodPort = rest.isEmpty || rest.first == ":" && port.utf8.allSatisfy { 0x30...0x39 ~= $0 }
        return !host.isEmpty && hasGoodPort ? String(host) : nil
    }
}
