import DequeModule
import Glibc
import PushPool
import RedisQueue
import Sockets
import SystemTime
import Threads

/// Runs the daemon's main loop on one thread: sleeps, reads signals, outcomes and lists, and performs what `DispatchMachine`
/// decides.
struct Dispatcher: ~Copyable {
    private var machine: DispatchMachine
    private var settings: Settings
    private var reloader: Reloader
    private let log: Log
    private var entries: DispatchLog
    private var publisher: SnapshotPublisher
    /// `nil` without a service manager that waits for messages.
    private let service: ServiceReport?
    private var pools: AppPools
    private var lists: UniqueDeque<JobQueue>
    private var signals: SignalInbox
    /// Why Redis refused before the first connection: the daemon ends with it.
    private var startFault: RedisError?
    private var hasConnected = false

    private var poller = Poller()
    /// The start of this turn.
    private var now = Instant.now
    private var longestTurn = Duration.zero
    // Kept for their memory.
    private var effects: [DispatchEffect] = []
    private var performing: [DispatchEffect] = []
    private var arrived: [Delivery] = []
    private var queueEvents: [QueueEvent] = []
    private var outgoing: [Notification] = []

    init(
        _ configuration: Configuration, reloader: consuming Reloader, log: Log, metrics: MetricsEndpoint,
        service: ServiceReport?, pools: consuming AppPools, signals: consuming SignalInbox
    ) {
        settings = configuration.settings
        self.reloader = reloader
        self.log = log
        entries = DispatchLog(log)
        self.service = service
        self.pools = pools
        self.signals = signals
        let resolver = NameResolver(thread: "redis names")
        lists = UniqueDeque()
        var workers: [String] = []
        for queue in settings.queues {
            let list = JobQueue(settings: queue, version: gaplessdVersion, tls: configuration.redisTLS, resolver: resolver)
            workers.append(list.worker)
            lists.append(list)
        }
        let states = StatePublisher(configuration, workers: zip(settings.lists, workers).map { (list: $0, worker: $1) })
        publisher = SnapshotPublisher(metrics, states)
        let wallClock = WallClock.now()
        machine = DispatchMachine(
            DispatchPlan(configuration, now: wallClock.unixSeconds), workers: workers, now: now, wallClock: wallClock)
    }

    /// Runs until a signal ends it. Returns Redis' error if it refused before the first connection.
    mutating func run() -> RedisError? {
        now = .now
        while !machine.isStopped && startFault == nil {
            sleep()
            turn()
        }
        publisher.stop()
        return startFault
    }

    /// The poller's places: 0 signals, 1 deliveries, from 2 on the events of each pool, then the lists.
    private mutating func sleep() {
        poller.reset()
        poller.add(signals.descriptor, for: .read)
        poller.add(pools.deliveries.wakeDescriptor, for: .read)
        for mailbox in pools.events { poller.add(mailbox.wakeDescriptor, for: .read) }
        for list in lists.indices { lists[list].addInterests(to: &poller) }
        var next = Earliest(machine.deadline)
        for list in lists.indices { next.consider(lists[list].deadline) }
        next.consider(publisher.deadline)
        if let service { next.consider(service.deadline) }
        next.consider(reloader.nextLook)
        // The poller needs the time anyway.
        let end = Instant.now
        longestTurn = max(longestTurn, end - now)
        poller.wait(until: next.instant, now: end)
    }

    /// Outcomes come first, so that a claim counts the places that they free. Claimed jobs go to the pools before anything is
    /// written to Redis.
    private mutating func turn() {
        now = .now
        machine.turnBegan(now: now, wallClock: .now())
        readSignals()
        readDeliveries()
        readPoolEvents()
        for app in pools.indices { machine.observed(pools.reading(of: app), app: app) }
        machine.tick(&effects)
        performEffects()
        offerPlaces()
        for list in lists.indices { turnQueue(list) }
        // A list that is now known to be empty leaves its places to the next one.
        if lists.count > 1 { offerPlaces() }
        limitSending()
        push()
        for list in lists.indices { writeQueue(list) }
        publish()
        if let service { report(to: service) }
        lookAtFiles()
    }

    // MARK: Facts. A mailbox is read only when its descriptor is readable: each read costs a lock and a system call.

    private mutating func readSignals() {
        if poller.readiness(at: 0).isEmpty { return }
        while let signal = signals.next() {
            switch signal {
            case .stop: machine.stopSignalReceived(&effects)
            case .reload: machine.reloadSignalReceived(&effects)
            case .report:
                let turn = Int(longestTurn / .milliseconds(1))
                log.answer("Counters: \(machine.counters), in flight \(machine.inFlight), longest turn \(turn) ms.", .counters)
            }
            performEffects()
        }
    }

    private mutating func readDeliveries() {
        if poller.readiness(at: 1).isEmpty { return }
        pools.deliveries.drain(into: &arrived)
        for index in arrived.indices { report(arrived[index]) }
        performEffects()
    }

    private mutating func report(_ delivery: Delivery) {
        let id = JobID(delivery.id)
        switch delivery.outcome {
        case .delivered(let apnsID): machine.delivered(id, apnsID: apnsID, times: delivery.times, &effects)
        case .begun(let expiration): machine.began(id, expiration: expiration)
        case .rejected, .notProcessed, .maybeProcessed, .timedOut, .outdated:
            guard let app = machine.app(of: id) else { return }
            machine.failed(
                id, delivery.outcome, on: delivery.session, isCurrent: pools[app].usesPresentCredential(delivery.session),
                random: .random(in: 0..<1), times: delivery.times, &effects)
        }
    }

    private mutating func readPoolEvents() {
        for app in pools.indices where !poller.readiness(at: 2 + app).isEmpty {
            for event in pools.events[app].drain() {
                let isCurrent =
                    switch event {
                    case .closed(let session, _, _), .dialFailed(let session, _, _, _): pools[app].usesPresentCredential(session)
                    default: true
                    }
                machine.happened(event, app: app, isCurrent: isCurrent, &effects)
            }
        }
        performEffects()
    }

    // MARK: Lists

    private mutating func offerPlaces() {
        machine.countPlaces(limit: pools.sharedRate)
        for list in lists.indices {
            let mayHaveJobs = lists.count > 1 && lists[list].wantsPlaces(now: now)
            lists[list].offer(places: machine.offer(to: list, mayHaveJobs: mayHaveJobs), now: now)
        }
    }

    private mutating func turnQueue(_ list: Int) {
        lists[list].turn(poller, now: now, events: &queueEvents)
        takeQueueEvents(list)
    }

    private mutating func writeQueue(_ list: Int) {
        lists[list].write(events: &queueEvents)
        takeQueueEvents(list)
    }

    private mutating func takeQueueEvents(_ list: Int) {
        if queueEvents.isEmpty { return }
        for event in queueEvents { happened(event, list: list) }
        queueEvents.removeAll(keepingCapacity: true)
        performEffects()
    }

    private mutating func happened(_ event: QueueEvent, list: Int) {
        switch event {
        case .claimed(let jobs): machine.claimed(jobs, list: list, &effects)
        case .suspects(let jobs): machine.claimedCrashSuspects(jobs, list: list, &effects)
        case .disowned(let claims): machine.disowned(Set(claims), list: list, &effects)
        case .leaseInDoubt: machine.leaseInDoubt(list, &effects)
        case .connected(let warnings):
            hasConnected = true
            let server = lists[list].discoveredServer.map { "\($0)" }
            machine.connected(list, server: server, warnings: warnings, &effects)
        case .disconnected(let why):
            machine.disconnected(list)
            entries(.disconnected(why, from: settings.redis.server.text))
        case .refused(let why):
            machine.disconnected(list)
            refused(why)
        case .limited(let why): entries(.redisWarning("\(why)."))
        case .recordsTrimmed(let records, let count): entries(.recordsTrimmed(records, count, list: settings.lists[list]))
        case .recordsMany(let records, let count): entries(.recordsMany(records, count, list: settings.lists[list]))
        case .recovered(_, 0): break  // It died idle.
        case .recovered(let worker, let jobs): entries(.recovered(jobs, worker: worker))
        case .paused(let pauses): machine.paused(pauses, list: list, &effects)
        case .stopped: machine.stopped(list, &effects)
        }
    }

    private mutating func refused(_ why: RedisError) {
        guard hasConnected else {
            startFault = why
            return
        }
        let remedies = [RedisRefusal.fault(why, settings).remedy, RedisRefusal.checkHint(why)].filter { !$0.isEmpty }
        let hint = remedies.isEmpty ? "" : " (\(remedies.joined(separator: "; ")))"
        log.error("Redis refuses: \(why)\(hint). Jobs stay in the queue; trying again every 5 s.", .redisRefused)
    }

    /// Gives the pools the earliest end of a lease. After a stop of the whole process (SIGSTOP, suspend) sessions may run before
    /// this thread does: they check this time themselves. A list in doubt sets none, because `machine` has withdrawn its jobs.
    private mutating func limitSending() {
        var earliest = Earliest()
        for list in lists.indices { earliest.consider(lists[list].sendingDeadline) }
        pools.allowSending(until: earliest.instant)
    }

    /// Hands this turn's notifications to the pools, with one lock for each.
    private mutating func push() {
        for app in pools.indices {
            machine.takeOutgoing(of: app, into: &outgoing)
            pools[app].push(&outgoing)
        }
    }

    // MARK: Effects

    private mutating func performEffects() {
        while !effects.isEmpty {
            swap(&effects, &performing)
            for index in performing.indices { perform(performing[index]) }
            performing.removeAll(keepingCapacity: true)
        }
        entries.writeSent()
    }

    private mutating func perform(_ effect: DispatchEffect) {
        switch effect {
        case .acknowledge(let claim, let list): lists[list].acknowledge(claim)
        case .settle(let settlement, let list): lists[list].settle(settlement)
        case .logSent(let job): entries.sent(job)
        case .log(let entry): entries(entry)
        case .withdraw(let withdrawal, let app): withdraw(withdrawal, app: app)
        case .reconnect(let app): pools[app].reconnect()
        case .renewToken(let id, let session, let app):
            machine.renewedToken(pools[app].renewToken(refusedOn: session), for: id, refusedOn: session, &effects)
        case .keepToken(let app): pools[app].keepToken()
        case .readConfiguration: reload()
        case .closePools: closePools()
        case .stopQueues: for list in lists.indices { lists[list].stop() }
        }
    }

    private mutating func withdraw(_ withdrawal: DispatchEffect.Withdrawal, app: Int) {
        let ids =
            switch withdrawal {
            case .release: pools[app].withdraw()
            case .keep(let ids), .forget(let ids), .giveBack(let ids): pools[app].withdraw(Set(ids.map(\.rawValue)))
            }
        machine.withdrew(ids.map(JobID.init), withdrawal, app: app, &effects)
    }

    private mutating func closePools() {
        for (app, waiting) in pools.close().enumerated() {
            machine.withdrew(waiting.map(JobID.init), .release, app: app, &effects)
        }
        for delivery in pools.deliveries.drain() { report(delivery) }
        machine.poolsClosed(&effects)
    }

    // MARK: Reload

    private mutating func lookAtFiles() {
        guard reloader.filesHaveChanged(now: now) else { return }
        entries(.filesChanged)
        machine.reloadSignalReceived(&effects)
        performEffects()
    }

    /// Adopts settings and credentials together, or neither.
    private mutating func reload() {
        service?.reloadBegan()
        let new = reloader.reload(settings, now: now)
        if let new { adopt(new) }
        service?.reloadEnded(new, machine.snapshot, now: now)
    }

    /// Cannot fail: whatever could was made with the configuration.
    private mutating func adopt(_ new: Configuration) {
        settings = new.settings
        log.change(format: settings.log.format, level: settings.log.level)
        for warning in new.warnings { log.warning(warning, .settingsWarning) }
        for list in lists.indices { lists[list].adopt(settings.queues[list], tls: new.redisTLS) }
        publisher.adopt(new)
        pools.adopt(new)
        machine.adopted(DispatchPlan(new, now: WallClock.now().unixSeconds), &effects)
    }

    // MARK: Metrics and the worker's record

    /// Costs one comparison per turn.
    private mutating func publish() {
        guard publisher.isDue(now: now) else { return }
        var snapshot = machine.snapshot
        pools.complete(&snapshot, now: now)
        for list in lists.indices {
            snapshot.lists[list].sinceContact = lists[list].lastContact.map { now - $0 }
            snapshot.lists[list].latency = lists[list].latency(now: now)
            snapshot.lists[list].hasBacklog = lists[list].wantsPlaces(now: now)
        }
        snapshot.longestTurn = longestTurn
        publisher.publish(snapshot, pools.figures, now: now)
    }

    // MARK: Service manager

    private mutating func report(to service: ServiceReport) {
        let facts = ServiceNotifier.Facts(redisHasAnswered: hasConnected, isStopping: machine.isLeaving)
        if service.isDue(facts, now: now) { service.report(facts, machine.snapshot, now: now) }
    }
}
