import Platform
import PushPool
import RedisQueue

/// Everything that the dispatcher derives from a configuration, at the start and at each reload.
struct DispatchPlan {
    struct App {
        /// `nil` for the top level.
        var name: String?
        /// For jobs that name none.
        var topic: String?
        /// Why its credential cannot be used, so that it is held; `nil` if it can.
        var fault: String?
        /// Unix seconds; `nil` for a signing key.
        var certificateExpires: Int64?
        /// The apps with the same credential and host, itself included: APNs throttles them together.
        var sharers: [Int]
        /// Names its credential, server and topic without revealing them: see `AcceptanceMemory`.
        var fingerprint = ""

        /// `app "beta": `, or nothing for the top level: the beginning of a log line.
        var label: String { name.map { "app \"\($0)\": " } ?? "" }
    }

    var apps: [App]
    /// The names of the lists, in order of priority.
    var lists: [String]
    /// The server of the settings, for the log.
    var server: String
    var routes: AppRoutes
    var reader: JobReader
    var policy: RetryPolicy
    var settling: Settler.Options
    var delivery: QueueSettings.DeliveryMode
    var drainTimeout: Duration
    var campaignShare = 0.1
    /// The stream of results.
    var resultsKey: String?
    /// `nil` if nothing is filtered.
    var filter: WordFilter?
    var certificates: CertificateWatch
}

extension DispatchPlan {
    /// - Parameter now: Unix seconds, for the dates of certificates.
    init(_ configuration: Configuration, now: Int64) {
        let settings = configuration.settings
        apps = settings.apps.map { app in
            let topic = app.defaultTopic
            return App(
                name: app.name, topic: topic,
                fault: app.credential == nil ? app.faults.map(\.line).joined(separator: "; ") : nil,
                certificateExpires: app.certificate?.notAfter,
                sharers: settings.apps.indices.filter {
                    settings.apps[$0].source == app.source && settings.apps[$0].pool.host == app.pool.host
                },
                fingerprint: app.credential?.fingerprint(server: "\(app.pool.host):\(app.pool.port)", topic: topic) ?? "")
        }
        lists = settings.lists
        server = settings.redis.server.text
        routes = AppRoutes(settings.apps)
        reader = routes.reader(retryLimit: settings.retryLimit)
        policy = RetryPolicy(limit: settings.retryLimit, delays: settings.retryDelays)
        settling = Settler.Options(
            loggedSuccesses: settings.log.successes, redacts: settings.log.redacts, tagsLines: settings.log.format == .json,
            recordsResults: settings.redis.resultsKey != nil)
        delivery = settings.redis.delivery
        drainTimeout = settings.drainTimeout
        campaignShare = settings.campaignShare
        resultsKey = settings.redis.resultsKey
        filter = configuration.filter
        certificates = CertificateWatch(configuration, now: now)
    }
}

extension DispatchPlan {
    /// Whether a key of Redis is one of gaplessd: no producer can hand it over.
    func owns(key: String) -> Bool { key == resultsKey || lists.contains { $0 == key || Keys(list: $0).owns(key) } }
}

/// The present turn of the dispatcher: the plan in force and the time, which all its machines share. Not copyable, because it is
/// read several times for each job.
struct Turn: ~Copyable {
    var plan: DispatchPlan
    var now: Instant
    var wallClock: WallClock
    /// After a stop signal nothing goes out.
    var isLeaving = false

    init(_ plan: DispatchPlan, now: Instant, wallClock: WallClock) {
        (self.plan, self.now, self.wallClock) = (plan, now, wallClock)
    }
}
