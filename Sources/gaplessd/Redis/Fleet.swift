import PushPool
import Threads

/// The connections to Redis for rules that all daemons of a list keep together: rate limits and provider tokens.
struct Fleet: Sendable {
    private let limits: FleetLimits
    private let tokens: FleetTokens

    init(_ rateLimits: SharedRateLimits, _ configuration: Configuration, log: Log) throws(ThreadError) {
        limits = try FleetLimits(rateLimits, configuration, log: log)
        tokens = try FleetTokens(configuration, log: log)
    }

    /// Adopts the settings, at each reload.
    func follow(_ configuration: Configuration) throws(ThreadError) {
        try limits.follow(configuration)
        try tokens.follow(configuration)
    }

    func stop() {
        limits.stop()
        tokens.stop()
    }
}
