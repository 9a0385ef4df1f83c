import Platform
import PushPool

/// The connections to Redis for rules that all daemons of a list keep together: rate limits and provider tokens.
struct Fleet: Sendable {
    /// Starts a thread with this name.
    typealias ThreadStart = @Sendable (String, @escaping @Sendable () -> Void) throws(ThreadError) -> Void

    private let limits: FleetLimits
    private let tokens: FleetTokens

    /// - Parameter start: by default, each thread may wait for a resolver at the end of the process, and owns nothing that others
    ///   wait for.
    init(
        _ rateLimits: SharedRateLimits, _ configuration: Configuration, log: Log,
        start: @escaping ThreadStart = { name, body throws(ThreadError) in try OwnedThread(name: name, body: body).leave() }
    ) throws(ThreadError) {
        limits = try FleetLimits(rateLimits, configuration, log: log, start: start)
        tokens = try FleetTokens(configuration, log: log, start: start)
    }

    /// Starts the threads that the settings need, and changes nothing else: a limit that applies without its thread would stop
    /// all sending.
    func prepare(_ configuration: Configuration) throws(ThreadError) {
        try tokens.prepare(configuration)
        try limits.prepare(configuration)
    }

    /// Adopts the settings, at each reload, after `prepare`.
    func follow(_ configuration: Configuration) {
        tokens.follow(configuration)
        limits.follow(configuration)
    }

    func stop() {
        limits.stop()
        tokens.stop()
    }
}
