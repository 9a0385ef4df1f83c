import DequeModule
import Glibc
import Platform
import PushPool
import RedisQueue

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
    private let keeper: ChannelKeeper
    /// In the order of the settings' lists.
    private var queues = UniqueDeque<JobQueue>()
    private var signals: SignalInbox
    /// The refusal of Redis before the first connection, which ends the daemon.
    private var startFault: RedisError?

    private var poller = Poller()
    /// The start of this turn.
    private var now = Instant.now
    private var longestTurn = Duration.zero
    /// A reading of the settings that arrived in this turn.
    private var reading: Result<Reloader.Reading, Reloader.Rejection>?
    private var knowsNewCampaigns = false
    // Kept for their memory.
    private var effects: [DispatchEffect] = []
    private var performing: [DispatchEffect] = []
    /// Outcomes, of which the last may belong to the next turn.
    private var arrived: [Delivery] = []
    /// Of `arrived`.
    private var reported = 0
    private var queueEvents: [QueueEvent] = []
    /// A list has reported apps with slots, which have no places yet.
    private var hasNewSlots = false
    private var outgoing: [Notification] = []

    init(
        _ configuration: Configuration, reloader: consuming Reloader, log: Log, publisher: consuming SnapshotPublisher,
        service: ServiceReport?, pools: consuming AppPools, keeper: ChannelKeeper, signals: consuming SignalInbox
    ) {
        settings = configuration.settings
        let messages = reloader.messages
        self.reloader = reloader
        self.log = log
        entries = DispatchLog(log)
        self.service = service
        self.pools = pools
        self.keeper = keeper
        keeper.begin { messages.send(.channel($0)) }
        self.signals = signals
        let resolver = NameResolver(thread: "redis names")
        var workers: [String] = []
        for settings in configuration.settings.queues {
            let queue = JobQueue(settings: settings, version: gaplessdVersion, tls: configuration.redisTLS, resolver: resolver)
            workers.append(queue.worker)
            queues.append(queue)
        }
        publisher.records.begin(workers: workers) { messages.send(.remembered($0)) }
        publisher.records.has(configuration.settings.apps)
        self.publisher = publisher
        let wallClock = WallClock.now()
        machine = DispatchMachine(
            DispatchPlan(configuration, now: wallClock.unixSeconds), workers: workers, now: now, wallClock: wallClock)
    }

    /// Runs until a signal ends it. Returns Redis' error if it refused before the first connection.
    mutating func run() -> RedisError? {
        now = .now
        machine.holdFaultyApps(&effects)
        performEffects()
        while !machine.isStopped && startFault == nil {
            sleep()
            turn()
        }
        return startFault
    }

    /// The poller's places: 0 signals, 1 deliveries, 2 messages, 3 events of the pools, then the lists.
    private mutating func sleep() {
        poller.reset()
        poller.add(signals.descriptor, for: .read)
        poller.add(pools.deliveries.wakeDescriptor, for: .read)
        poller.add(reloader.messages.wakeDescriptor, for: .read)
        poller.add(pools.events.wakeDescriptor, for: .read)
        var next = Earliest(machine.deadline)
        next.consider(pools.nextAttempt)
        if reported < arrived.count { next.consider(now) }
        for list in queues.indices {
            queues[list].addInterests(to: &poller)
            next.consider(queues[list].deadline)
        }
        next.consider(publisher.deadline)
        if let service { next.consider(service.deadline) }
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
        readMessages()
        readDeliveries()
        readPoolEvents()
        pools.retry(now: now)
        for app in pools.open { machine.observed(pools.reading(of: app), app: app) }
        machine.tick(&effects)
        performEffects()
        offerPlaces()
        for list in queues.indices { turnQueue(list) }
        // A list that is now known to be empty leaves its places to the next one. A new campaign, or a new app with slots, has
        // had no places.
        if queues.count > 1 || knowsNewCampaigns || hasNewSlots { offerPlaces() }
        (knowsNewCampaigns, hasNewSlots) = (false, false)
        pools.allowSending(until: sendingDeadline())
        push()
        for list in queues.indices { writeQueue(list) }
        publish()
        if let service { report(to: service) }
        if reading != nil { endReload() }
    }

    // MARK: Facts. A mailbox is read only when its descriptor is readable: each read costs a lock and a system call.

    private mutating func readSignals() {
        if poller.readiness(at: 0).isEmpty { return }
        while let signal = signals.next() {
            switch signal {
            case .stop: machine.stopSignalReceived(&effects)
            case .reload(let asker):
                if let asker { reloader.asked(by: asker) }
                if machine.isLeaving { reloader.refuse() }
                machine.reloadSignalReceived(&effects)
            case .report:
                let turn = Int(longestTurn / .milliseconds(1))
                log.answer("Counters: \(machine.counters), in flight \(machine.inFlight), longest turn \(turn) ms.", .counters)
            }
            performEffects()
        }
    }

    private mutating func readMessages() {
        if poller.readiness(at: 2).isEmpty { return }
        for message in reloader.messages.drain() {
            switch message {
            case .remembered(let ages): machine.remembered(ages, &effects)
            case .channel(let answer): machine.answered(answer)
            case .filesChanged:
                entries(.filesChanged)
                machine.reloadSignalReceived(&effects)
            // The poller's places are those of the present pools until the turn ends.
            case .read(let result): reading = result
            case .appsChanged(let changes): adopt(changes)
            }
            performEffects()
        }
    }

    /// Outcomes that one turn reports at most, which takes 10 to 20 ms: signals and claims wait no longer.
    private static let mostOutcomes = 4096

    private mutating func readDeliveries() {
        if reported == arrived.count {
            if poller.readiness(at: 1).isEmpty { return }
            pools.deliveries.drain(into: &arrived)
            reported = 0
        }
        report(atMost: Self.mostOutcomes)
        performEffects()
    }

    private mutating func report(atMost count: Int) {
        let end = min(arrived.count, reported + min(count, arrived.count))
        for index in reported..<end { report(arrived[index]) }
        reported = end
    }

    private mutating func report(_ delivery: Delivery) {
        let id = JobID(delivery.id)
        switch delivery.outcome {
        case .delivered(let acceptance):
            let isCurrent = !machine.awaitsAcceptance(app: id.app) || isCurrent(delivery)
            machine.delivered(id, acceptance, isCurrent: isCurrent, times: delivery.times, &effects)
        case .begun(let expiration): machine.began(id, expiration: expiration)
        case .rejected, .notProcessed, .maybeProcessed, .timedOut, .outdated:
            machine.failed(delivery, isCurrent: isCurrent(delivery), random: .random(in: 0..<1), &effects)
        }
    }

    /// Whether the session presents the credential that is in use now.
    private func isCurrent(_ delivery: Delivery) -> Bool {
        machine.app(of: JobID(delivery.id)).map { pools.usesPresentCredential(delivery.session, app: $0) } ?? true
    }

    /// An event of a session follows the outcomes before it.
    private mutating func readPoolEvents() {
        if poller.readiness(at: 3).isEmpty || reported < arrived.count { return }
        for news in pools.events.drain() {
            machine.happened(news.event, app: news.app, isCurrent: pools.isCurrent(news.event, app: news.app), &effects)
        }
        performEffects()
    }

    // MARK: Lists

    /// The earliest end of a lease. A list in doubt has none, because its jobs are withdrawn.
    private mutating func sendingDeadline() -> Instant? {
        var next = Earliest()
        for list in queues.indices { next.consider(queues[list].sendingDeadline) }
        return next.instant
    }

    private mutating func offerPlaces() {
        machine.countPlaces(limit: pools.sharedRate)
        for list in queues.indices {
            let hasCampaigns = machine.hasCampaigns(in: list)
            let mayHaveJobs = (queues.count > 1 || hasCampaigns) && queues[list].wantsPlaces(now: now)
            if machine.hasAsides {
                for (app, places) in machine.offerSlots(to: list) { queues[list].offer(places: places, slots: app) }
                for (app, places) in machine.offerAsides(to: list) { queues[list].offer(places: places, aside: app, now: now) }
            }
            if hasCampaigns {
                let resting = queues[list].restingCampaigns(now: now)
                for offer in machine.offerCampaigns(to: list, hasJobs: mayHaveJobs, resting: resting) {
                    queues[list].offer(places: offer.places, campaign: offer.id, now: now)
                }
            }
            queues[list].offer(places: machine.offer(to: list, mayHaveJobs: mayHaveJobs), now: now)
        }
    }

    private mutating func turnQueue(_ list: Int) {
        queues[list].turn(poller, now: now, events: &queueEvents)
        takeQueueEvents(list)
    }

    private mutating func writeQueue(_ list: Int) {
        queues[list].write(events: &queueEvents)
        takeQueueEvents(list)
    }

    private mutating func takeQueueEvents(_ list: Int) {
        if queueEvents.isEmpty { return }
        for event in queueEvents {
            var server: Endpoint?
            switch event {
            case .refused(let why): refused(why)
            case .renamed(let worker, _): publisher.records.renamed(to: worker, list: list)
            case .connected: server = queues[list].discoveredServer
            case .slots: hasNewSlots = true
            case .campaigns: knowsNewCampaigns = true
            default: break
            }
            machine.happened(event, list: list, server: server, &effects)
        }
        queueEvents.removeAll(keepingCapacity: true)
        performEffects()
    }

    private mutating func refused(_ why: RedisError) {
        guard machine.hasConnected else {
            startFault = why
            return
        }
        let remedies = [RedisRefusal.fault(why, settings).remedy, RedisRefusal.checkHint(why)].filter { !$0.isEmpty }
        let hint = remedies.isEmpty ? "" : " (\(remedies.joined(separator: "; ")))"
        log.error("Redis refuses: \(why)\(hint). Jobs stay in the queue; trying again every 5 s.", .redisRefused)
    }

    /// Hands this turn's notifications to the pools, with one lock for each.
    private mutating func push() {
        for app in pools.open {
            machine.takeOutgoing(of: app, into: &outgoing)
            pools[app]?.push(&outgoing)
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
        case .acknowledge(let claim, let list): queues[list].acknowledge(claim)
        case .acknowledgeToken(let claim, let job): queues[job.list].acknowledge(claim, ofCampaign: job.campaign.id)
        case .settle(let settlement, let list): queues[list].settle(settlement)
        case .restore(let app, let list): queues[list].restore(aside: app)
        case .launch(let order, let claim, let list): queues[list].launch(claim, order)
        case .describe(let campaign, let list): queues[list].describe(campaign: campaign)
        case .count(let outcome, let list): queues[list].count(outcome)
        case .countMaybeDuplicate(let list): queues[list].countMaybeDuplicate()
        case .logSent(let job): entries.sent(job)
        case .log(let entry): entries(entry)
        case .withdraw(let withdrawal, let app): withdraw(withdrawal, app: app)
        case .reconnect(let app): pools[app]?.reconnect()
        case .retire(let session, let app): pools[app]?.retire(session)
        case .renewToken(let id, let session, let app):
            let renewal = pools[app]?.renewToken(refusedOn: session) ?? .noSigningKey
            machine.renewedToken(renewal, for: id, refusedOn: session, &effects)
        case .keepToken(let app): pools[app]?.keepToken()
        case .open(let app): open(app)
        case .finish(let app): pools.finish(app)
        case .readConfiguration: beginReload()
        case .closePools: closePools()
        case .stopQueues: for list in queues.indices { queues[list].stop() }
        case .askKeeper(let request): keeper.ask(request)
        }
    }

    private mutating func open(_ app: Int) {
        do {
            try pools.open(app, now: now)
        } catch {
            log.error("\(machine.label(of: app))No session can open: \(error). Trying again every second.", .sessionFailed)
        }
    }

    private mutating func withdraw(_ withdrawal: DispatchEffect.Withdrawal, app: Int) {
        machine.withdrew(pools.withdraw(withdrawal, app: app), withdrawal, app: app, &effects)
    }

    private mutating func closePools() {
        for (app, waiting) in pools.close().enumerated() {
            machine.withdrew(waiting.map(JobID.init), .release, app: app, &effects)
        }
        report(atMost: .max)
        for delivery in pools.deliveries.drain() { report(delivery) }
        machine.poolsClosed(&effects)
    }

    // MARK: Reload

    private mutating func beginReload() {
        service?.reloadBegan()
        if !reloader.begin() {
            service?.reloadEnded(isAdopted: false, machine.snapshot, now: now)
            reloader.answer(faults: nil)
        }
    }

    /// Adopts settings and credentials together, or neither.
    private mutating func endReload() {
        guard let result = reading.take() else { return }
        if machine.isLeaving {
            reloader.refuse()
            return entries(.reloadIgnored)
        }
        let prepared = reloader.prepare(result)
        if let prepared { commit(prepared) }
        reloader.answer(faults: prepared?.reading.faults)
        if !reloader.beginAgain() { service?.reloadEnded(isAdopted: prepared != nil, machine.snapshot, now: now) }
        performEffects()
    }

    /// Cannot fail: every step that can fail was done before.
    private mutating func commit(_ prepared: Reloader.Prepared) {
        let reading = prepared.reading
        let new = reading.configuration
        settings = new.settings
        settings.apps = []
        reloader.commit(prepared)
        log.adopt(format: settings.log.format, level: settings.log.level)
        for warning in new.loggedWarnings { log.warning(warning, .settingsWarning) }
        for fault in reading.faults { log.error("Reload: \(fault)", .reloadFailed) }
        for list in queues.indices { queues[list].adopt(settings.queues[list], tls: new.redisTLS) }
        // The operator may have corrected what holds an app without changing its files.
        let replaced = new.settings.apps.indices.map { app in
            let isUsable = new.settings.apps[app].credential != nil
            return isUsable && (reading.changes[app] || machine.isHeld(app: app))
        }
        keeper.adopt(new)
        publisher.records.has(new.settings.apps) { reading.changes[$0] || new.settings.apps[$0].credential == nil }
        pools.adopt(new, replacing: replaced)
        reloader.adopted(insteadOf: machine.adopted(reading.plan, replaced: replaced, &effects))
    }

    /// Files of `apps_dir` have changed.
    private mutating func adopt(_ news: Reloader.AppChanges) {
        if machine.isLeaving { return }
        for warning in news.warnings { log.warning(warning, .settingsWarning) }
        for fault in news.faults { log.error("Reload: \(fault)", .reloadFailed) }
        for (number, app) in news.changes {
            pools.set(app, at: number)
            pools.replace(number)
        }
        publisher.records.has(news.changes.map(\.app))
        keeper.adopt(news.changes)
        machine.changed(news.changes, &effects)
        if !news.changes.isEmpty { log.info("Reloaded: \(news.summary).", .reloaded) }
        reloader.appsAdopted()
    }

    // MARK: Metrics and the worker's record

    /// Costs one comparison per turn.
    private mutating func publish() {
        guard publisher.isDue(now: now) else { return }
        var snapshot = machine.snapshot
        pools.complete(&snapshot, now: now)
        for list in queues.indices {
            snapshot.lists[list].sinceContact = queues[list].lastContact.map { now - $0 }
            snapshot.lists[list].latency = queues[list].latency(now: now)
            snapshot.lists[list].hasBacklog = queues[list].wantsPlaces(now: now)
        }
        snapshot.longestTurn = longestTurn
        publisher.publish(consume snapshot, pools.figures(of: machine.awake), now: now)
    }

    // MARK: Service manager

    private mutating func report(to service: ServiceReport) {
        let facts = ServiceNotifier.Facts(redisHasAnswered: machine.hasConnected, isStopping: machine.isLeaving)
        service.report(facts, machine.snapshot, now: now)
    }
}

/// Writes the lines of the dispatcher, in the order of the outcomes.
private struct DispatchLog {
    private let log: Log
    /// Jobs for `Sent:` lines, logged together: a lock and a look at the clock for each would cost more than the lines.
    private var sent: [[UInt8]] = []

    init(_ log: Log) { self.log = log }

    /// A delivered job, redacted as the settings say.
    mutating func sent(_ job: [UInt8]) { sent.append(job) }

    mutating func writeSent() {
        if sent.isEmpty { return }
        log.sent(sent)
        sent.removeAll(keepingCapacity: true)
    }

    mutating func callAsFunction(_ entry: LogEntry) {
        writeSent()
        switch entry {
        case .sentence(.debug, let text, _): log.debug(text)
        case .sentence(.info, let text, let event): log.info(text, event)
        case .sentence(.warning, let text, let event): log.warning(text, event)
        case .sentence(.error, let text, let event): log.error(text, event)
        case .sent(let job, let push): log.sent(job, push)
        case .retrying(let identifier, let reason, let count, let push):
            log.retrying(identifier: identifier, reason, count: count, push)
        case .final(let identifier, let reason, let job, let push): log.final(identifier: identifier, reason, job: job, push)
        case .badJob(let job, let error, let redacts): log.badJob(job, error, redacts: redacts)
        }
    }
}
