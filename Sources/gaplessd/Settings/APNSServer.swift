/// The server that `apns_server` names.
struct APNSServer: Sendable, Equatable {
    let address: HostAndPort
    /// The name of Apple's server; `nil` for `host:port`.
    let name: String?
    /// The binary gateway that the settings name, if they name one. Apple shut them down on 2021-03-31.
    let retiredGateway: String?

    private static let gateways = [
        "gateway.push.apple.com:2195": "production", "gateway.sandbox.push.apple.com:2195": "sandbox",
    ]

    init?(_ text: String) {
        let successor = Self.gateways[text.lowercased()]
        switch successor ?? text {
        case "production": (address, name) = (HostAndPort("api.push.apple.com", 443), "production")
        case "sandbox": (address, name) = (HostAndPort("api.sandbox.push.apple.com", 443), "sandbox")
        default:
            guard let other = HostAndPort(text) else { return nil }
            (address, name) = (other, nil)
        }
        retiredGateway = successor == nil ? nil : text
    }
}
