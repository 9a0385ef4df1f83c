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
        /// Names its credential, server and topic without revealing them: see `AcceptanceMemory`.
        var fingerprint = ""
        /// Equal for all `sharers`.
        var credentialKey = ""
        /// The settings no longer have it.
        var isRemoved = false
        /// Whether it is a file of `apps_dir`: a corrected one takes effect by itself.
        var isInFolder = false

        /// Whether its credential can be used.
        var maySend: Bool { fault == nil && !isRemoved }
        /// Why it may not send; `nil` if it may.
        var hold: HoldReason? { isRemoved ? .removed : fault.map { .unusable($0, inAppsFolder: isInFolder) } }

        /// The keys of the settings behind a hold, with the prefix of the app.
        var credentialSetting = "apns_auth_key_path"
        var keyPrefix = ""

        /// The keys to check, for the end of a log line about a hold.
        func place(of reason: HoldReason) -> String {
            let keys =
                switch reason {
                case .credential, .unusable, .tokenUpdates: [credentialSetting]
                case .untrusted: ["apns_ca_path", "apns_server"]
                case .topic: ["apns_topic"]
                case .suspectTokens: ["apns_server", "apns_topic"]
                case .throttled, .failing, .rule, .removed: [String]()
                }
            let owner = name == nil ? ["top level"] : []
            // A key of the top level alone.
            let rules = if case .rule = reason { ["retry_rules"] } else { [String]() }
            let words = owner + keys.map { keyPrefix + $0 } + rules
            return words.isEmpty ? "" : " (\(words.joined(separator: ", ")))"
        }

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
    /// Whether each broadcast waits for a pause between two updates of its channel.
    var pacesChannels = false
    var campaignShare = 0.1
    /// The stream of results.
    var resultsKey: String?
    /// `nil` if nothing is filtered.
    var filter: WordFilter?
    /// Values that no payload may have.
    var matches: [PayloadMatch] = []
    var certificates: CertificateWatch
    /// The time without a job after which an app has no sessions; 0 keeps them open.
    var idleTimeout = Duration.zero
    /// The apps that daemons of the lists have had, with their topics.
    private var former: [String: String] = [:]
    /// The apps by `App.credentialKey`.
    private var sharers: [String: Set<Int>] = [:]

    init(
        apps: [App], lists: [String], server: String, routes: AppRoutes, reader: JobReader, policy: RetryPolicy,
        settling: Settler.Options, delivery: QueueSettings.DeliveryMode, drainTimeout: Duration, certificates: CertificateWatch
    ) {
        (self.apps, self.lists, self.server, self.routes, self.reader) = (apps, lists, server, routes, reader)
        (self.policy, self.settling, self.delivery, self.drainTimeout) = (policy, settling, delivery, drainTimeout)
        self.certificates = certificates
        for (index, app) in apps.enumerated() { sharers[app.credentialKey, default: []].insert(index) }
    }
}

extension DispatchPlan {
    /// - Parameter now: Unix seconds, for the dates of certificates.
    init(_ configuration: Configuration, now: Int64) {
        let settings = configuration.settings
        self.init(
            apps: [], lists: settings.lists, server: settings.redis.server.text, routes: AppRoutes(),
            reader: JobReader(retryLimit: settings.retryLimit, appNames: []),
            policy: RetryPolicy(limit: settings.retryLimit, delays: settings.retryDelays, rules: settings.retryRules),
            settling: Settler.Options(
                loggedSuccesses: settings.log.successes, redacts: settings.log.redacts, tagsLines: settings.log.format == .json,
                recordsResults: settings.redis.resultsKey != nil),
            delivery: settings.redis.delivery, drainTimeout: settings.drainTimeout, certificates: CertificateWatch([], now: now))
        pacesChannels = settings.channelPace.pause.map { $0 > .zero } ?? false
        campaignShare = settings.campaignShare
        resultsKey = settings.redis.resultsKey
        idleTimeout = settings.appsIdleTimeout
        filter = configuration.filter
        matches = settings.matches
        for (index, app) in settings.apps.enumerated() { set(app, at: index, now: now) }
    }

    /// Adds the next app, or replaces one of the same name. Costs the same for any number of apps.
    ///
    /// - Parameter now: Unix seconds, for the dates of certificates.
    mutating func set(_ app: Settings.App, at index: Int, now: Int64) {
        let topic = app.defaultTopic
        let new = App(
            name: app.name, topic: topic,
            fault: app.credential == nil && !app.isRemoved ? app.faults.map(\.line).joined(separator: "; ") : nil,
            certificateExpires: app.isRemoved ? nil : app.certificate?.notAfter,
            fingerprint: app.credential?.fingerprint(server: "\(app.pool.host):\(app.pool.port)", topic: topic) ?? "",
            credentialKey: app.isRemoved ? "" : app.credentialKey, isRemoved: app.isRemoved,
            isInFolder: app.file != nil, credentialSetting: app.source?.key ?? "apns_auth_key_path", keyPrefix: app.keyPrefix)
        let old = index < apps.count ? apps[index].credentialKey : nil
        if index < apps.count { apps[index] = new } else { apps.append(new) }
        routes.set(AppRoutes.App(app), at: index)
        reader.set(app: app.name, topic: topic)
        let watched = app.isRemoved ? nil : app.certificate.map { (key: app.keyPrefix + (app.source?.key ?? ""), facts: $0) }
        certificates.set(watched, at: index, now: now)
        if let old, old != new.credentialKey { leave(old, index) }
        sharers[new.credentialKey, default: []].insert(index)
    }

    /// The daemons of a list have had these apps: the jobs of those that the settings do not have wait.
    ///
    /// - Parameter known: names with topics.
    mutating func remember(_ known: [String: String]) {
        former.merge(known) { $1 }
        routes.remember(former)
        for (name, topic) in former where routes.isFormer(name) { reader.set(app: name, topic: topic.isEmpty ? nil : topic) }
    }

    /// The plan of a new configuration takes effect.
    mutating func adopt(_ plan: consuming DispatchPlan) {
        let former = former
        self = plan
        remember(former)
    }

    private mutating func leave(_ key: String, _ index: Int) {
        sharers[key]?.remove(index)
        if sharers[key]?.isEmpty == true { sharers[key] = nil }
    }

    /// The apps with the credential and the host of this one, itself included: APNs throttles them together.
    func sharers(of app: Int) -> [Int] {
        let key = apps[app].credentialKey
        return key.isEmpty ? [app] : sharers[key].map { $0.sorted() } ?? [app]
    }
}

extension Settings.App {
    /// Equal for apps with the same credential and the same host.
    fileprivate var credentialKey: String {
        switch source {
        case .certificate(let path, let keyPath, _): "c\0\(path)\0\(keyPath ?? "")\0\(pool.host)"
        case .pkcs12(let path, _): "p\0\(path)\0\(pool.host)"
        case .signingKey(let path, let keyID, let teamID): "k\0\(path)\0\(keyID)\0\(teamID)\0\(pool.host)"
        case nil: ""
        }
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
    private let byAddress = ByAddress()

    init(_ plan: DispatchPlan, now: Instant, wallClock: WallClock) {
        (self.plan, self.now, self.wallClock) = (plan, now, wallClock)
    }

    /// Unix milliseconds of an instant of this process.
    func milliseconds(_ instant: Instant?) -> Int64? {
        guard let instant else { return nil }
        return Int64(exactly: ((wallClock.seconds - (now - instant) / .seconds(1)) * 1000).rounded())
    }
}

/// The next action of the shell for `DispatchMachine`; the order counts.
enum DispatchEffect: Equatable {
    /// The notifications to take back from a pool's queue, and the next place of their jobs.
    enum Withdrawal: Equatable {
        /// All that no session has taken; their jobs go back to the list.
        case release
        /// The notifications of these jobs, which wait until the lease is certain again.
        case keep(Set<JobID>)
        /// The notifications of these jobs, which go back to their place in the list.
        case giveBack(Set<JobID>)
        /// The notifications of these jobs, which another worker holds now.
        case forget(Set<JobID>)
    }

    /// APNs accepted the job at the first attempt, and no result is recorded: the end of nearly all jobs.
    case acknowledge(ClaimID, list: Int)
    /// The same for a token of a campaign.
    case acknowledgeToken(ClaimID, CampaignJob)
    indirect case settle(Settlement, list: Int)
    /// Return the jobs of the side list of an app that the settings do not have.
    case restore(aside: String, list: Int)
    /// Begin the campaign of a claimed job. Answered by `QueueEvent.launched`.
    indirect case launch(CampaignOrder, ClaimedJob, list: Int)
    /// Ask for the job of a campaign of which a token was claimed.
    case describe(campaign: String, list: Int)
    /// Count an outcome that settles nothing.
    indirect case count(CampaignOutcome, list: Int)
    /// APNs may have accepted an attempt, and another one follows, here or by another worker.
    case countMaybeDuplicate(list: Int)
    /// A delivered job for its `Sent:` line, already redacted.
    case logSent([UInt8])
    indirect case log(LogEntry)
    /// Answered by `withdrew`.
    indirect case withdraw(Withdrawal, app: Int)
    /// Close the app's sessions and dial again.
    case reconnect(app: Int)
    /// Use the session no more: APNs refuses its credential, which was replaced.
    case retire(SessionID, app: Int)
    /// Sign a provider token. Answered by `renewedToken`.
    case renewToken(for: JobID, refusedOn: SessionID, app: Int)
    /// Sign no provider token for 20 minutes.
    case keepToken(app: Int)
    /// Make the pool of the app.
    case open(app: Int)
    /// End the pool of the app, once its streams have ended.
    case finish(app: Int)
    /// Read settings and credentials; if they can be adopted, answered by `adopted`.
    case readConfiguration
    /// Close every pool, with `withdrew` for its queue and `failed` for its attempts. Answered by `poolsClosed`.
    case closePools
    /// Confirm the last settlements. Answered by `stopped` of each list.
    case stopQueues
    /// Find a channel, answered by `answered`, or record its end.
    indirect case askKeeper(ChannelKeeper.Request)
}
