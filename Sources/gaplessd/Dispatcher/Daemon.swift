import PushPool
import RedisQueue
import SystemTime
import Threads

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
            try metrics.follow(configuration)
        } catch {
            return [error.line]
        }
        let deliveries = Mailbox<Delivery>()
        let limits = SharedRateLimits(
            pushesPerSecond: settings.limits.pushesPerSecond, bitsPerSecond: settings.limits.bitsPerSecond)
        let fleet = try Fleet(limits, configuration, log: log)
        defer { fleet.stop() }
        var pools: [SessionPool] = []
        var events: [Mailbox<PoolEvent>] = []
        for credential in configuration.credentials {
            let mailbox = Mailbox<PoolEvent>()
            pools.append(try SessionPool(credential.setup, deliveries: deliveries, events: mailbox, rateLimits: limits))
            events.append(mailbox)
        }
        let service = try ServiceReport(configuration, log: log, now: .now)
        defer { service?.close() }
        log.info("gaplessd \(gaplessdVersion) started, list \(settings.lists.joined(separator: ", ")).", .started)
        var dispatcher = Dispatcher(
            configuration,
            reloader: Reloader(configuration, read: readConfiguration, log: log, metrics: metrics, fleet: fleet, now: .now),
            log: log, metrics: metrics, service: service, pools: pools, poolEvents: events, deliveries: deliveries,
            limits: limits, signals: signals)
        return dispatcher.run().map { RedisAccess.faults(behind: $0, settings) } ?? []
    }
}
