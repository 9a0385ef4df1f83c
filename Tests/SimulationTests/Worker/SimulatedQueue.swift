import Platform

@testable import RedisQueue

/// The shell of a real `QueueMachine`: what `JobQueue` does, on simulated connections.
final class SimulatedQueue {
    var machine: QueueMachine
    private var encoder: CallEncoder
    private let settings: QueueSettings
    private let world: World
    private let redis: SimulatedRedis
    private let worker: Int
    private(set) var renames = 0
    private let latency: () -> Int64
    private let isGone: (String) -> Bool
    private let wake: () -> Void
    private(set) var control: RedisLink?
    private(set) var waiter: RedisLink?
    private var dials = 0
    private var dialResult: Result<Void, RedisError>?
    private var incoming: [(sent: RedisLink.Sent, reply: RedisReply)] = []
    private var effects: [QueueMachine.Effect] = []
    private var performing: [QueueMachine.Effect] = []
    private var now: Instant
    /// Possible duplicates that no batch has, and those in the batches that were sent, by their sequences.
    private var uncounted = 0
    private var counting: [UInt64: Int] = [:]
    /// The jobs that the owner has settled since their claim. A rollback of Redis may bring a job again under the same number.
    private var settled: Set<ClaimID> = []

    init(
        _ world: World, _ redis: SimulatedRedis, worker: Int, name: String, latency: @escaping () -> Int64,
        isGone: @escaping (String) -> Bool, wake: @escaping () -> Void
    ) {
        (self.world, self.redis, self.worker, self.latency, self.isGone) = (world, redis, worker, latency, isGone)
        self.wake = wake
        settings = redis.settings
        now = world.now
        machine = QueueMachine(settings: settings, worker: name, seed: world.bits(), now: now)
        encoder = SimulatedQueue.encoder(settings, worker, renames: 0)
    }

    private static func encoder(_ settings: QueueSettings, _ worker: Int, renames: Int) -> CallEncoder {
        let name = Ledger.name(ofWorker: worker, renames: renames)
        return CallEncoder(
            settings: settings, worker: WorkerName(text: name, host: "simulated", pid: worker), information: [],
            epochSeed: Int64(worker) << 32 + Int64(renames) << 16)
    }

    var name: String { Ledger.name(ofWorker: worker, renames: renames) }

    var deadline: Instant? {
        var next = Earliest(machine.deadline)
        next.consider(control?.deadline)
        next.consider(waiter?.deadline)
        return next.instant
    }

    var heldCount: Int { machine.holdings.chunks.count }
    /// The bytes of the jobs in the memory of the worker, until Redis has confirmed their settlement.
    var heldJobs: [[UInt8]] { machine.holdings.chunks.ids.compactMap { machine.holdings.chunks.bytes(of: $0) } }
    var isSettled: Bool { machine.holdings.isEmpty }
    var isServing: Bool { machine.phase == .serving }

    /// Whether Redis has lost settlements that it had confirmed.
    var isBehind: Bool { redis.settled(by: name) < machine.holdings.confirmed }

    /// It stopped without a connection, because it held nothing: it cannot know whether Redis has lost settlements since.
    private(set) var endedUnnoticed = false

    /// Possible duplicates that Redis has not confirmed.
    var untoldDuplicates: Int {
        let confirmed = machine.holdings.confirmed
        return uncounted + counting.reduce(0) { $1.key > confirmed ? $0 + $1.value : $0 }
    }

    func turn(now: Instant, events: inout [QueueEvent]) {
        self.now = now
        receive()
        let isConnected = machine.phase != .disconnected
        machine.advance(now: now, into: &effects)
        if machine.phase == .stopped && !isConnected { endedUnnoticed = true }
        perform(&events)
    }

    func write(events: inout [QueueEvent]) {
        while true {
            control?.flush()
            waiter?.flush()
            if effects.isEmpty { return }
            perform(&events)
        }
    }

    func launch(_ claim: ClaimedJob, _ order: CampaignOrder) {
        machine.launch(claim, order, isReachable: true, into: &effects)
    }
    func describe(_ campaign: String) { machine.describe(campaign: campaign, into: &effects) }
    func acknowledge(_ id: ClaimID, ofCampaign campaign: String? = nil) {
        settles(id)
        machine.acknowledge(id, ofCampaign: campaign, now: now)
    }
    func settle(_ settlement: Settlement) {
        settles(settlement.id)
        machine.settle(settlement, now: now)
        if settlement.aside != nil { machine.reportAsides(into: &effects) }
    }
    private func settles(_ id: ClaimID) {
        if !settled.insert(id).inserted { world.fail("worker \(worker) settles the job \(id) twice") }
    }
    func countMaybeDuplicate() {
        uncounted += 1
        machine.countMaybeDuplicate(now: now)
    }

    /// The process has ended.
    func abandon() {
        dials += 1
        control?.close()
        waiter?.close()
        (control, waiter) = (nil, nil)
    }

    private func receive() {
        switch dialResult.take() {
        case nil: break
        case .success: machine.connected(into: &effects)
        case .failure(let error): machine.lost(error.description, now: now, into: &effects)
        }
        do throws(RedisError) {
            try control?.receive(now: now, into: &incoming)
            try waiter?.receive(now: now, into: &incoming)
        } catch {
            takeReplies()
            return machine.lost(error.description, now: now, into: &effects)
        }
        takeReplies()
    }

    private func takeReplies() {
        for (sent, reply) in incoming {
            if machine.phase == .disconnected || machine.phase == .stopped { break }
            if case .error(let error) = reply, error.kind == .scriptMissing {
                encoder.forgetScripts()
                send(sent.call)
            } else {
                machine.received(reply, to: sent.call, sentAt: sent.at, now: now, isGone: isGone, into: &effects)
            }
        }
        incoming.removeAll(keepingCapacity: true)
    }

    private func perform(_ events: inout [QueueEvent]) {
        if effects.isEmpty { return }
        swap(&effects, &performing)
        for effect in performing {
            switch effect {
            case .dial: dial()
            case .hangUp:
                dials += 1
                dialResult = nil
                control?.close()
                waiter?.close()
                (control, waiter) = (nil, nil)
            case .call(let call): send(call)
            case .wait(let claim):
                wait(.wait)
                if let claim { wait(.claim(claim)) }
            case .report(let event):
                switch event {
                case .claimed(let claims), .suspects(let claims): settled.subtract(claims.map(\.id))
                default: break
                }
                events.append(event)
            case .rename: rename()
            case .follow, .learn: break
            }
        }
        performing.removeAll(keepingCapacity: true)
    }

    private func rename() {
        renames += 1
        encoder = SimulatedQueue.encoder(settings, worker, renames: renames)
        machine.renamed(to: name, into: &effects)
    }

    private func send(_ call: Call) {
        if case .settle(let batch) = call, counting[batch.sequence] == nil {
            counting[batch.sequence] = batch.maybeDuplicates
            uncounted = max(0, uncounted - batch.maybeDuplicates)
        }
        var bytes: [UInt8] = []
        encoder.write(call, number: machine.number, to: &bytes)
        control?.send(call, now: now, bytes)
        if case .claim(let claim) = call { send(.jobs(of: claim)) }
    }

    private func wait(_ call: Call) {
        var bytes: [UInt8] = []
        encoder.write(call, number: machine.number, to: &bytes)
        waiter?.send(call, blocking: .seconds(CallEncoder.waitSeconds), now: now, bytes)
        if case .claim(let claim) = call { wait(.jobs(of: claim)) }
    }

    /// Two round trips: that of TCP, and that of the greeting.
    private func dial() {
        dials += 1
        let own = dials
        encoder.forgetScripts()
        world.after(4 * latency()) { [self] in
            guard own == dials else { return }
            if redis.isDown {
                dialResult = .failure(.closed)
            } else {
                control = link()
                waiter = link()
                dialResult = .success(())
            }
            wake()
        }
    }

    private func link() -> RedisLink {
        RedisLink(world, redis, worker: worker, timeout: settings.timeout, latency: latency, onArrival: wake)
    }
}
