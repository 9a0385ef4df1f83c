import Clocks
import Glibc
import PushPool
import RedisQueue
import Threads

/// The daemon's heart, on one thread: claims jobs, sends them to the pools, and settles what comes back.
///
/// It decides nothing itself: `JobReader` says what a job is, `CircuitBreaker` whether it may go, `RetryPolicy` what an answer
/// means. The other files of this type hold a business each: claims, outcomes, sessions, the filter, reload, watching, shutdown.
struct Dispatcher: ~Copyable {
    enum Phase: Equatable {
        case running
        /// Nothing new is claimed or sent; what is on the wire has until then.
        case draining(until: Instant)
        /// The pools are closed; the lists confirm the last settlements, at most until then.
        case stopping(until: Instant)
        case stopped
    }

    /// One list of the queue. A class, because a `JobQueue` cannot be copied into an array.
    final class List {
        var queue: JobQueue
        let name: String
        var isStopped = false
        /// Whether Redis serves it just now.
        var isConnected = false
        /// Whether this worker's lease may have run out: then nothing of it goes on the wire.
        var isInDoubt = false
        /// Claims wait until then, since the last one found jobs of apps that cannot send.
        var pausedUntil: Instant?
        /// What the jobs of the last claim were cut into, in bytes.
        var cutBytes = 0
        /// No job is cut beyond this. Parts are larger than what they are cut from by up to the payload, each, and stand in
        /// memory several times on their way to Redis.
        static let mostCutBytes = 1 << 20
        var rounds = HeldRounds()

        init(queue: consuming JobQueue, name: String) {
            self.queue = queue
            self.name = name
        }
    }

    /// How long the last settlements may take to be confirmed at the end.
    static let stoppingTimeout = Duration.seconds(5)
    /// An app without any session keeps what it has claimed for so long; then its jobs go back to where LLEN counts them.
    static let unreachablePatience = Duration.seconds(1)

    var settings: Settings
    var plan: DaemonPlan
    let readAnew: ReadAnew
    let log: Log
    var certificates: CertificateWatch
    var nextCertificateCheck = Instant.now
    let apps: [PushApp]
    var routes: AppRoutes
    let lists: [List]
    let deliveries: Mailbox<Delivery>
    let poolEvents: [Mailbox<PoolEvent>]
    /// Of all pools together.
    let pacer: SharedRateLimits
    /// When enough of what waits under the limits will have gone for more to be claimed; `nil` where the limits hold back no claim.
    var nextRefill: Instant?
    var signals: SignalInbox
    var reader: JobReader
    /// `nil` where nothing is filtered.
    var filter: WordFilter?
    let watch: MetricsEndpoint
    var notices = NoticeSchedule()
    var held = HeldJobs()
    /// What APNs has lately said of device tokens.
    var memory = TokenMemory()
    var phase = Phase.running
    var counters = Counters()
    /// Why a list was refused before it was ever connected: the daemon ends with it.
    var startFault: RedisError?
    var hasConnected = false

    // This turn's clocks, read once.
    var now = Instant.now
    var wallClock = WallClock.now()

    /// Jobs of this turn that APNs has, as the log shows them: until `logSent()`.
    var sent: [[UInt8]] = []
    private var poller = Poller()
    private var arrived: [Delivery] = []
    private var queueEvents: [QueueEvent] = []

    init(
        _ configuration: Configuration, readAnew: @escaping ReadAnew, log: Log, watch: MetricsEndpoint, apps: [PushApp],
        lists: [List],
        deliveries: Mailbox<Delivery>, poolEvents: [Mailbox<PoolEvent>], pacer: SharedRateLimits, signals: consuming SignalInbox
    ) {
        settings = configuration.settings
        plan = DaemonPlan(settings)
        certificates = CertificateWatch(configuration, now: wallClock.unixSeconds)
        filter = configuration.filter
        self.readAnew = readAnew
        self.log = log
        self.watch = watch
        self.apps = apps
        routes = AppRoutes(names: apps.map(\.name), configuration.credentials)
        self.lists = lists
        self.deliveries = deliveries
        self.poolEvents = poolEvents
        self.pacer = pacer
        self.signals = signals
        reader = JobReader(retryLimit: plan.policy.limit, appNames: Set(apps.compactMap(\.name)))
    }

    /// Runs until a signal ends it. Returns why it could not start, if so.
    mutating func run() -> RedisError? {
        while phase != .stopped && startFault == nil {
            sleep()
            turn()
        }
        return startFault
    }

    /// The places of the poller that `turn` looks at: 0 signals, 1 deliveries, from 2 on the events of each app's pool.
    private mutating func sleep() {
        poller.reset()
        poller.add(signals.descriptor, for: .read)
        poller.add(deliveries.wakeDescriptor, for: .read)
        for mailbox in poolEvents { poller.add(mailbox.wakeDescriptor, for: .read) }
        for list in lists { list.queue.addInterests(to: &poller) }
        poller.wait(until: deadline)
    }

    /// What came back goes before what goes out, so that a claim knows the places that were just freed; and a job that was claimed
    /// goes to its session before Redis is told anything else.
    private mutating func turn() {
        now = .now
        wallClock = WallClock.now()
        takeSignals()
        takeDeliveries()
        takePoolEvents()
        keepTime()
        offerPlaces()
        for list in lists.indices { turnQueue(list) }
        // A list that was found empty a moment ago makes room for the next one.
        if lists.count > 1 { offerPlaces() }
        sendOutgoing()
        for list in lists.indices { writeQueue(list) }
        noticeStopped()
        tellWatchers()
    }

    // Each look for what came is a lock and a system call: none without the descriptor's word.

    private mutating func takeDeliveries() {
        if poller.readiness(at: 1).isEmpty { return }
        deliveries.drain(into: &arrived)
        for index in arrived.indices { ended(arrived[index]) }
        logSent()
    }

    private mutating func takeSignals() {
        if poller.readiness(at: 0).isEmpty { return }
        while let signal = signals.next() { received(signal) }
    }

    private mutating func takePoolEvents() {
        for app in apps.indices where !poller.readiness(at: 2 + app).isEmpty {
            for event in poolEvents[app].drain() { happened(event, app: app) }
        }
    }

    private mutating func turnQueue(_ list: Int) {
        queueEvents.removeAll(keepingCapacity: true)
        lists[list].queue.turn(poller, now: now, events: &queueEvents)
        for event in queueEvents { happened(event, list: list) }
    }

    private mutating func writeQueue(_ list: Int) {
        queueEvents.removeAll(keepingCapacity: true)
        lists[list].queue.write(events: &queueEvents)
        for event in queueEvents { happened(event, list: list) }
    }

    /// Hands this turn's notifications to the pools, each pool's with one lock.
    ///
    /// Jobs of a list whose Redis is silent stay here: they may be another worker's soon.
    private mutating func sendOutgoing() {
        let isAnyInDoubt = lists.contains(where: \.isInDoubt)
        for app in apps where !app.outgoing.isEmpty {
            let doubted = isAnyInDoubt ? app.outgoing.filter { isInDoubt($0) } : []
            if !doubted.isEmpty { app.outgoing.removeAll { isInDoubt($0) } }
            app.pool.push(&app.outgoing)
            app.outgoing += doubted
            app.doubted = doubted.count
        }
    }

    private func isInDoubt(_ notification: Notification) -> Bool {
        held[notification.id].map { lists[$0.list].isInDoubt } ?? false
    }

    private mutating func received(_ signal: SignalInbox.Signal) {
        switch signal {
        case .stop: beginDrainOrLeave()
        case .report: log.answer("Counters: \(counters), in flight \(held.count).")
        case .reload: reload()
        }
    }

    /// The next moment at which something is due without anybody's word.
    private var deadline: Instant? {
        var next = Earliest()
        for list in lists {
            next.consider(list.queue.deadline)
            next.consider(list.pausedUntil)
        }
        for app in apps {
            if let probe = app.gate.nextProbe, probe > now { next.consider(probe) }
            if app.held > 0 { next.consider(app.unreachableSince.map { $0 + Self.unreachablePatience }) }
        }
        next.consider(nextRefill)
        if certificates.wait(now: wallClock.unixSeconds) != nil { next.consider(nextCertificateCheck) }
        if watch.isOpen { next.consider(notices.deadline) }
        switch phase {
        case .draining(let until), .stopping(let until): next.consider(until)
        case .running, .stopped: break
        }
        return next.instant
    }

    /// What the clock alone brings about.
    private mutating func keepTime() {
        for (index, app) in apps.enumerated() {
            if app.pool.capacity > 0 {
                app.unreachableSince = nil
            } else if app.unreachableSince == nil {
                app.unreachableSince = now
            } else if let since = app.unreachableSince, now - since >= Self.unreachablePatience {
                takeBack(app: index)
            }
            // Whatever way a probe went (a broken session, an expiry, another worker): once nothing is out, no verdict will come.
            if app.gate.isProbing && app.held == 0 { perform(app.gate.probeWasInconclusive(now: now), app: index) }
        }
        watchCertificates()
        keepShutdownTime()
    }

    private mutating func watchCertificates() {
        guard nextCertificateCheck <= now, let wait = certificates.wait(now: wallClock.unixSeconds) else { return }
        for warning in certificates.warnings(now: wallClock.unixSeconds) { log.warning(warning) }
        nextCertificateCheck = now + .seconds(wait)
    }
}
