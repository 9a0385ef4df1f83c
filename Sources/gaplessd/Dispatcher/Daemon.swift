import PushPool
import RedisQueue
import Threads

/// `gaplessd run`: the parts put together.
enum Daemon {
    /// Runs until a signal ends it.
    ///
    /// - Parameters:
    ///   - signals: made before any thread.
    ///   - readAnew: reads the settings file and its credentials again, for SIGHUP.
    /// - Returns: the faults because of which it could not start, if so: then nothing was claimed.
    /// - Throws: where the system gives no threads; nothing was claimed either.
    static func run(
        _ configuration: Configuration, signals: consuming SignalInbox, log: Log, readAnew: @escaping Dispatcher.ReadAnew
    ) throws(ThreadError) -> [String] {
        let settings = configuration.settings
        let watch = MetricsEndpoint(log: log)
        defer { watch.close() }
        do {
            try watch.follow(configuration)
        } catch {
            return [error.line]
        }
        let deliveries = Mailbox<Delivery>()
        let pacer = SharedRateLimits(
            pushesPerSecond: settings.limits.pushesPerSecond, bitsPerSecond: settings.limits.bitsPerSecond)
        var apps: [PushApp] = []
        var events: [Mailbox<PoolEvent>] = []
        for (app, credential) in zip(settings.apps, configuration.credentials) {
            let mailbox = Mailbox<PoolEvent>()
            let pool = try SessionPool(credential.setup, deliveries: deliveries, events: mailbox, rateLimits: pacer)
            apps.append(PushApp(name: app.name, pool: pool, credential))
            events.append(mailbox)
        }
        let lists = settings.queues.map { queue in
            Dispatcher.List(
                queue: JobQueue(settings: queue, version: gaplessdVersion, tls: configuration.redisTLS), name: queue.list)
        }
        log.info("gaplessd \(gaplessdVersion) started, list \(settings.lists.joined(separator: ", ")).")
        var dispatcher = Dispatcher(
            configuration, readAnew: readAnew, log: log, watch: watch, apps: apps, lists: lists, deliveries: deliveries,
            poolEvents: events, pacer: pacer, signals: signals)
        return dispatcher.run().map { RedisAccess.faults(behind: $0, settings) } ?? []
    }
}
