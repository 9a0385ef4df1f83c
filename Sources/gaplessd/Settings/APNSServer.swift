/// The server that `apns_server` names.
struct APNSServer: Sendable, Equatable {
    let address: HostAndPort
    /// The name of Apple's server; `nil` for `host:port`.
    let name: String?
    /// Whether the settings name one of the binary gateways, which Apple shut down on 2021-03-31.
    let isRetired: Bool

    init?(_ text: String) {
        switch text {
        case "production", "gateway.push.apple.com:2195":
            (address, name) = (HostAndPort("api.push.apple.com", 443), "production")
        case "sandbox", "gateway.sandbox.push.apple.com:2195":
            (address, name) = (HostAndPort("api.sandbox.push.apple.com", 443), "sandbox")
        default:
            guard let other = HostAndPort(text) else { return nil }
            (address, name) = (other, nil)
        }
        isRetired = name != nil && name != text
    }
}
