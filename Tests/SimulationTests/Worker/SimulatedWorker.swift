import Platform

@testable import PushPool
@testable import RedisQueue
@testable import gaplessd

/// The shell of a real `DispatchMachine`: what `Dispatcher` does, with a simulated pool for each app and a simulated queue.
final class SimulatedWorker {
    let number: Int
    private let world: World
    private let ledger: Ledger
    private let plan: DispatchPlan
    private var machine: DispatchMachine
    private(set) var queue: SimulatedQueue!
    /// In the order of the apps.
    private(set) var pools: [SimulatedPool] = []
    private let ticker: Ticker
    /// The most streams that each pool had. While it replaces its sessions, the old ones have theirs besides.
    private var mostStreams: [Int]
    private let onStopped: (SimulatedWorker) -> Void

    private var now: Instant
    private var mailbox: [Delivery] = []
    private var poolEvents: [(app: Int, event: PoolEvent)] = []
    private var sendingDeadline: Instant?
    private var effects: [DispatchEffect] = []
    private var performing: [DispatchEffect] = []
    private var queueEvents: [QueueEvent] = []
    private var outgoing: [Notification] = []
    private(set) var isGone = false
    private(set) var isStopping = false
    private(set) var stoppedUntil: Int64 = 0

    init(
        _ number: Int, _ world: World, _ redis: SimulatedRedis, _ apns: [SimulatedAPNs], _ conditions: Conditions,
        isGone: @escaping (String) -> Bool, onStopped: @escaping (SimulatedWorker) -> Void
    ) {
        (self.number, self.world, self.onStopped) = (number, world, onStopped)
        ledger = redis.ledger
        let name = Ledger.name(ofWorker: number)
        plan = conditions.plan
        now = world.now
        machine = DispatchMachine(plan, workers: [name], now: now, wallClock: world.clock.wallClock)
        ticker = Ticker(world)
        mostStreams = conditions.apps.map { _ in 0 }
        let wake = { [world, ticker] in ticker.wake(at: world.time + world.time(in: 5 * .microsecond...60 * .microsecond)) }
        ticker.onTurn { [unowned self] in turn() }
        queue = SimulatedQueue(
            world, redis, worker: number, name: name,
            latency: { world.time(in: conditions.redisLatency) }, isGone: isGone, wake: wake)
        pools = apns.map { apns in
            SimulatedPool(
                world, apns, worker: number, settings: conditions.pool,
                onDeliveries: { [unowned self] in
                    mailbox += $0
                    wake()
                },
                onEvent: { [unowned self] in
                    poolEvents.append((apns.app, $0))
                    wake()
                })
        }
        world.note(.started, number)
        wake()
    }

    var name: String { queue.name }
    /// With the former ones.
    var names: [String] { (0...queue.renames).map { Ledger.name(ofWorker: number, renames: $0) } }
    var heldJobs: [Int] { queue.heldJobs.flatMap(Ledger.jobs) }
    var isIdle: Bool { machine.inFlight == 0 && queue.isSettled && queue.isServing }

    // MARK: Signals and faults

    func stop() {
        isStopping = true
        machine.turnBegan(now: world.now, wallClock: world.clock.wallClock)
        machine.stopSignalReceived(&effects)
        ticker.wake(at: world.time)
    }

    func reload() {
        machine.reloadSignalReceived(&effects)
        ticker.wake(at: world.time)
    }

    /// SIGKILL.
    func crash() {
        loseMemory()
        end()
    }

    private func loseMemory() { ledger.crashed(number, untold: queue.untoldDuplicates, isBehind: queue.isBehind) }

    /// Frees what refers to this worker.
    func end() {
        isGone = true
        ticker.stop()
        queue.abandon()
        for pool in pools { pool.abandon() }
    }

    /// SIGSTOP, and SIGCONT later. Then its threads run in any order.
    func freeze(until end: Int64) {
        ledger.hasFault(number)
        stoppedUntil = end
        ticker.notBefore = end + world.skewed(upTo: 50 * .millisecond)
        for pool in pools { pool.stopped(until: end) { [world] in world.skewed(upTo: 50 * .millisecond) } }
    }

    // MARK: One turn

    private func turn() {
        if isGone { return }
        now = world.now
        world.note(.turn, number, machine.inFlight)
        machine.turnBegan(now: now, wallClock: world.clock.wallClock)
        performEffects()
        readDeliveries()
        readPoolEvents()
        for app in pools.indices {
            machine.observed(PoolHealth.Reading(capacity: pools[app].capacity, limit: nil, waiting: 0), app: app)
        }
        machine.tick(&effects)
        performEffects()
        offerPlaces()
        queue.turn(now: now, events: &queueEvents)
        takeQueueEvents()
        limitSending()
        for app in pools.indices {
            machine.takeOutgoing(of: app, into: &outgoing)
            pools[app].push(&outgoing)
        }
        queue.write(events: &queueEvents)
        takeQueueEvents()
        check()
        if isGone { return }
        if machine.isStopped {
            world.note(.stopped, number, queue.heldCount)
            // Redis was away until the end of the drain timeout.
            if !queue.isSettled || queue.untoldDuplicates > 0 || queue.endedUnnoticed { loseMemory() }
            end()
            return onStopped(self)
        }
        ticker.notBefore = max(ticker.notBefore, world.time + world.time(in: 10 * .microsecond...40 * .microsecond))
        var next = Earliest(machine.deadline)
        next.consider(queue.deadline)
        ticker.wake(at: next.instant)
        if !mailbox.isEmpty || !poolEvents.isEmpty { ticker.wake(at: world.time) }
    }

    /// Apps that share a list hold at most twice the jobs of their places: the streams, and as many again up to a batch. A
    /// piggybacked claim is made without places.
    private func check() {
        for (app, pool) in pools.enumerated() { mostStreams[app] = max(mostStreams[app], pool.capacity) }
        let mostInFlight = mostStreams.reduce(32) { $0 + 2 * ($1 + min($1, PoolHealth.batch)) }
        if machine.inFlight > mostInFlight {
            world.fail("worker \(number) holds \(machine.inFlight) jobs; at most \(mostInFlight) are allowed")
        }
    }

    private func readDeliveries() {
        let arrived = mailbox
        mailbox = []
        for delivery in arrived { report(delivery) }
        performEffects()
    }

    private func report(_ delivery: Delivery) {
        let id = JobID(delivery.id)
        world.note(.outcome, number, Int(truncatingIfNeeded: delivery.id))
        switch delivery.outcome {
        case .delivered(let acceptance):
            machine.delivered(id, acceptance, isCurrent: isCurrent(delivery), times: delivery.times, &effects)
        case .begun(let expiration): machine.began(id, expiration: expiration)
        case .rejected, .notProcessed, .maybeProcessed, .timedOut, .outdated:
            guard machine.app(of: id) != nil else { return }
            machine.failed(delivery, isCurrent: isCurrent(delivery), random: world.fraction(), &effects)
        }
    }

    private func isCurrent(_ delivery: Delivery) -> Bool {
        machine.app(of: JobID(delivery.id)).map { pools[$0].usesPresentCredential(delivery.session) } ?? true
    }

    private func readPoolEvents() {
        let events = poolEvents
        poolEvents = []
        for (app, event) in events {
            let isCurrent =
                switch event {
                case .closed(let session, _, _), .dialFailed(let session, _, _, _):
                    pools[app].usesPresentCredential(session)
                default: true
                }
            machine.happened(event, app: app, isCurrent: isCurrent, &effects)
        }
        performEffects()
    }

    private func offerPlaces() {
        machine.countPlaces(limit: nil)
        if machine.hasAsides {
            for (app, places) in machine.offerSlots(to: 0) { queue.machine.offer(places: places, slots: app) }
            for (app, places) in machine.offerAsides(to: 0) { queue.machine.offer(places: places, aside: app, now: now) }
        }
        let hasCampaigns = machine.hasCampaigns(in: 0)
        let mayHaveJobs = hasCampaigns && queue.machine.wantsPlaces(at: now)
        if hasCampaigns {
            let resting = queue.machine.restingCampaigns(now: now)
            for offer in machine.offerCampaigns(to: 0, hasJobs: mayHaveJobs, resting: resting) {
                queue.machine.offer(places: offer.places, campaign: offer.id, now: now)
            }
        }
        queue.machine.offer(places: machine.offer(to: 0, mayHaveJobs: mayHaveJobs), now: now)
    }

    private func takeQueueEvents() {
        for event in queueEvents { happened(event) }
        queueEvents.removeAll(keepingCapacity: true)
        performEffects()
    }

    private func happened(_ event: QueueEvent) {
        switch event {
        case .refused(let why): world.fail("Redis refuses: \(why)")
        // It has had no places.
        case .slots, .campaigns: ticker.wake(at: world.time)
        default: break
        }
        machine.happened(event, list: 0, &effects)
    }

    private func limitSending() {
        let deadline = queue.machine.sendingDeadline
        if deadline == sendingDeadline { return }
        sendingDeadline = deadline
        for pool in pools { pool.allowSending(until: deadline) }
    }

    // MARK: Effects

    private func performEffects() {
        while !effects.isEmpty {
            swap(&effects, &performing)
            for effect in performing { perform(effect) }
            performing.removeAll(keepingCapacity: true)
        }
    }

    private func perform(_ effect: DispatchEffect) {
        switch effect {
        case .acknowledge(let claim, _): queue.acknowledge(claim)
        case .acknowledgeToken(let claim, let job): queue.acknowledge(claim, ofCampaign: job.campaign.id)
        case .settle(let settlement, _): queue.settle(settlement)
        case .restore(let app, _): queue.machine.restore(app)
        case .launch(let order, let claim, _): queue.launch(claim, order)
        case .describe(let campaign, _): queue.describe(campaign)
        case .count(let outcome, _): queue.machine.count(outcome, now: now)
        case .countMaybeDuplicate: queue.countMaybeDuplicate()
        case .logSent, .log: break
        case .withdraw(let withdrawal, let app): withdraw(withdrawal, app: app)
        case .reconnect(let app): pools[app].reconnect()
        case .retire(let session, let app): pools[app].send(.retire(session))
        case .renewToken(let id, let session, let app):
            machine.renewedToken(pools[app].renewToken(refusedOn: session), for: id, refusedOn: session, &effects)
        case .keepToken: break
        case .open(let app), .finish(let app): preconditionFailure("app \(app) keeps its pool")
        case .readConfiguration:
            world.note(.reloaded, number)
            for pool in pools { pool.replace() }
            machine.adopted(plan, &effects)
        case .closePools: closePools()
        case .stopQueues: queue.machine.stop()
        case .askKeeper: break  // No simulated job names a channel.
        }
    }

    private func withdraw(_ withdrawal: DispatchEffect.Withdrawal, app: Int) {
        let ids =
            switch withdrawal {
            case .release: pools[app].queue.withdraw()
            case .keep(let ids), .forget(let ids), .giveBack(let ids): pools[app].queue.withdraw(Set(ids.map(\.rawValue)))
            }
        machine.withdrew(ids.map(JobID.init), withdrawal, app: app, &effects)
    }

    private func closePools() {
        for app in pools.indices {
            let waiting = pools[app].close()
            machine.withdrew(waiting.map(JobID.init), .release, app: app, &effects)
        }
        let arrived = mailbox
        mailbox = []
        for delivery in arrived { report(delivery) }
        machine.poolsClosed(&effects)
    }
}
