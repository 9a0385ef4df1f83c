import Platform
import PushPool
import RedisQueue

/// `gaplessd run`: puts the parts together.
enum Daemon {
    /// Runs until a signal ends it.
    ///
    /// - Parameters:
    ///   - signals: made before the first thread.
    ///   - readConfiguration: for SIGHUP.
    /// - Returns: why it could not start; empty if it did. After a fault no job has been claimed.
    /// - Throws: if the system provides no threads; no job has been claimed.
    static func run(
        _ configuration: Configuration, signals: consuming SignalInbox, log: Log,
        readConfiguration: @escaping Reloader.Read
    ) throws(ThreadError) -> [String] {
        let settings = configuration.settings
        let metrics = MetricsEndpoint(log: log)
        defer { metrics.close() }
        do {
            // A slow resolver delays nothing yet.
            try metrics.follow(configuration, timeout: .seconds(10))
        } catch {
            return [error.line]
        }
        let limits = SharedRateLimits(
            pushesPerSecond: settings.limits.pushesPerSecond, bitsPerSecond: settings.limits.bitsPerSecond,
            leaseWanted: try WakeUp(thread: "fleet limits"))
        let fleet = try Fleet(limits, configuration, log: log)
        defer { fleet.stop() }
        let pools = try AppPools(configuration, limits: limits)
        let memory = try Mailbox<[String: Duration]>(thread: "dispatcher")
        let service = try ServiceReport(configuration, log: log, now: .now)
        defer { service?.close() }
        let reloader = try Reloader(configuration, read: readConfiguration, log: log, metrics: metrics, fleet: fleet)
        log.info("gaplessd \(gaplessdVersion) started, list \(settings.lists.joined(separator: ", ")).", .started)
        var dispatcher = Dispatcher(
            configuration, reloader: reloader, log: log, metrics: metrics, service: service, pools: pools, signals: signals,
            memory: memory)
        return dispatcher.run().map { RedisAccess.faults(behind: $0, settings) } ?? []
    }
}
