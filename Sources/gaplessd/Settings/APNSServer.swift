import PushPool
import RedisQueue

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
