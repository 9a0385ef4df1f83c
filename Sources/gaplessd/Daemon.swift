import PushPool
import RedisQueue
import Threads

/// What the dispatcher needs of the settings.
struct DaemonPlan: Sendable, Equatable {
    var policy: RetryPolicy
    /// Whether each delivered push is logged.
    var logsSuccesses: Bool
    /// Whether log lines cut device tokens and leave `data` out.
    var redacts: Bool
    /// Whether every final outcome goes into the results stream.
    var keepsResults: Bool
    var drainTimeout: Duration

    init(_ settings: Settings) {
        policy = RetryPolicy(limit: settings.retryLimit, delays: settings.retryDelays)
        logsSuccesses = settings.log.successes
        redacts = settings.log.redacts
        keepsResults = settings.redis.resultsKey != nil
        drainTimeout = settings.drainTimeout
    }
}

/// `gaplessd run`: the parts put together.
enum Daemon {
    /// Runs until a signal ends it.
    ///
    /// - Parameter apps: the settings' apps with what their credentials were made of, in the order of the settings.
    /// - Returns: why it could not start, if so: then nothing was claimed.
    static func run(settings: Settings, apps: [LoadedApp], log: Log) -> String? {
        let signals = SignalInbox()
        let wakeUp = WakeUp()
        let deliveries = Mailbox<Delivery>()
        var pushApps: [PushApp] = []
        var events: [Mailbox<PoolEvent>] = []
        for app in apps {
            let mailbox = Mailbox<PoolEvent>(wakeUp: wakeUp)
            do {
                let pool = try SessionPool(
                    settings: poolSettings(app, settings), credential: app.credential, deliveries: deliveries, events: mailbox)
                pushApps.append(PushApp(name: app.name, pool: pool, topic: app.topic, needsTopic: app.needsTopic))
                events.append(mailbox)
            } catch {
                return "\(app.name.map { "app \"\($0)\": " } ?? "")\(error)"
            }
        }
        let lists = settings.queues.map { queue in
            Dispatcher.List(queue: JobQueue(settings: queue, version: Version.current), name: queue.list)
        }
        log.info("gaplessd \(Version.current) started: \(apps.count == 1 ? "1 app" : "\(apps.count) apps"), lists \(settings.lists.joined(separator: ", ")).")
        var dispatcher = Dispatcher(
            plan: DaemonPlan(settings), log: log, apps: pushApps, lists: lists, deliveries: deliveries, poolEvents: events,
            signals: signals)
        return dispatcher.run()
    }

    private static func poolSettings(_ app: LoadedApp, _ settings: Settings) -> PoolSettings {
        var pool = app.pool
        pool.collectsAPNSIDs = settings.redis.resultsKey != nil
        return pool
    }
}
