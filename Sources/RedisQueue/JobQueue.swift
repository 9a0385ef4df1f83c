import Glibc
public import Platform

/// One list, its jobs in flight, and the two connections to its server. One thread owns it, sleeps on its descriptors and gives
/// it turns. It reconnects until it is stopped.
///
/// A thin shell: `QueueMachine` decides, `CallEncoder` writes the commands, `RedisConnection` sends them.
public struct JobQueue: ~Copyable {
    private var machine: QueueMachine
    private var encoder: CallEncoder
    private let settings: QueueSettings
    private var search: ServerSearch
    /// Runs every script, pipelined and in order.
    private var control: RedisConnection<Call>?
    /// Waits for jobs with a blocking command.
    private var waiter: RedisConnection<Call>?
    private var greetingsMissing = 0
    private var smoothedLatency = Duration.zero
    /// The effects of the machine that are not performed, and those that are being performed.
    private var effects: [QueueMachine.Effect] = []
    private var performing: [QueueMachine.Effect] = []
    private var now = Instant.now

    private static let instances = Locked(0)

    /// The name of this worker in Redis. The event `.renamed` changes it.
    public private(set) var worker: String
    private let version: String

    /// - Parameters:
    ///   - version: of the program, for `status`.
    ///   - tls: the TLS settings; `nil` for a plain connection.
    ///   - resolver: looks up the names of Redis and of the Sentinels. Several queues may share it.
    public init(
        settings: QueueSettings, version: String, tls: TLSContext? = nil,
        resolver: NameResolver = NameResolver(thread: "redis names")
    ) {
        let instance = JobQueue.instances.withLock { count in
            count += 1
            return count
        }
        self.init(settings: settings, version: version, tls: tls, resolver: resolver, worker: .make(instance: instance))
    }

    init(
        settings: QueueSettings, version: String, tls: TLSContext? = nil,
        resolver: NameResolver = NameResolver(thread: "redis names"), worker: WorkerName
    ) {
        self.settings = settings
        search = ServerSearch(settings, tls: tls, resolver: resolver)
        self.worker = worker.text
        machine = QueueMachine(
            settings: settings, worker: worker.text, seed: .random(in: .min ... .max),
            firstRank: UInt64(max(0, WallClock.now().seconds * 1_000_000)), now: .now)
        self.version = version
        encoder = JobQueue.encoder(settings, worker, version: version)
    }

    private static func encoder(_ settings: QueueSettings, _ worker: WorkerName, version: String) -> CallEncoder {
        let information = [
            "host", worker.host, "pid", String(worker.pid), "version", version, "started", String(time(nil)),
            "lease", String(Int(settings.lease / .milliseconds(1))),
        ]
        return CallEncoder(
            settings: settings, worker: worker, information: information, epochSeed: .random(in: 0...Int64.max / 2))
    }

    /// Adds the descriptors to sleep on. Call it before each sleep, with a poller that was reset.
    public mutating func addInterests(to poller: inout Poller) {
        search.addInterest(to: &poller)
        control?.addInterest(to: &poller)
        waiter?.addInterest(to: &poller)
    }

    /// Adopts the settings that may change while the queue runs: TLS and the user from the next connection on; the key of the
    /// results and the limits of results and dead letters at once.
    public mutating func adopt(_ settings: QueueSettings, tls: TLSContext?) {
        search.adopt(settings, tls: tls)
        encoder.adopt(settings)
    }

    /// The time of the next turn.
    ///
    /// `mutating`, like the other getters of each turn: for a getter that is not, Swift 6.3 copies the whole queue, which is some
    /// kilobytes (measured: 340 instructions).
    public var deadline: Instant? {
        mutating get {
            var next = Earliest(machine.deadline)
            next.consider(search.deadline)
            next.consider(control?.deadline ?? nil)
            next.consider(waiter?.deadline ?? nil)
            return next.instant
        }
    }

    /// Reads the replies, decides, and appends events for the owner. After each turn the owner forwards claimed jobs, and then
    /// calls `write`: the system call that wakes Redis would delay a claimed job by more than the whole turn.
    ///
    /// - Parameter poller: the one that `addInterests` was last called with.
    public mutating func turn(_ poller: borrowing Poller, now: Instant, events: inout [QueueEvent]) {
        self.now = now
        receive(poller)
        machine.advance(now: now, into: &effects)
        perform(&events)
    }

    /// Writes the commands of the turn, with one write for each connection.
    public mutating func write(events: inout [QueueEvent]) {
        flushConnections()
        // A broken connection has effects of its own.
        while !effects.isEmpty {
            perform(&events)
            flushConnections()
        }
    }

    /// Sets how many more jobs the owner can take now. The queue claims up to that number, at most 250 at a time, when it is
    /// worth a round trip (see `Claims`). 0 claims nothing from the list.
    ///
    /// More jobs than places can arrive: after a reconnect, if the reply to a claim was lost, and up to 32 if the places are
    /// withdrawn while the queue waits for an empty list. The owner releases these jobs.
    public mutating func offer(places: Int, now: Instant) {
        machine.offer(places: places, now: now)
    }

    /// Sets how many more jobs of one app the owner can take now from its side list, which has jobs (`QueueEvent.aside`).
    public mutating func offer(places: Int, aside app: String, now: Instant) {
        machine.offer(places: places, aside: app, now: now)
    }

    /// Sets how many jobs of one app the owner can take now from its slots (`QueueEvent.slots`).
    public mutating func offer(places: Int, slots app: String) { machine.offer(places: places, slots: app) }

    /// Sets how many tokens of an active campaign (`QueueEvent.campaigns`) the owner can take now.
    public mutating func offer(places: Int, campaign id: String, now: Instant) {
        machine.offer(places: places, campaign: id, now: now)
    }

    /// The campaigns that have no token to claim now: because of their pace, a pause, or an audience that is empty.
    public mutating func restingCampaigns(now: Instant) -> Set<String> { machine.restingCampaigns(now: now) }

    /// Begins the campaign of a claimed job. `QueueEvent.launched` follows, and then the owner settles the job. After `stop`
    /// there is no event, and the job returns to the list.
    public mutating func launch(_ claim: ClaimedJob, _ order: CampaignOrder) {
        let isReachable = Keys.slot(of: order.source) == Keys.slot(of: Keys(list: settings.list).campaigns)
        machine.launch(claim, order, isReachable: isReachable, into: &effects)
    }

    /// Asks for a campaign of which the owner has a token. `QueueEvent.campaigns` or `campaignMissing` follows.
    public mutating func describe(campaign id: String) { machine.describe(campaign: id, into: &effects) }

    /// Returns the jobs of a side list to the head of the list, in their order.
    public mutating func restore(aside app: String) { machine.restore(app) }

    /// Whether the list may hold jobs for which this worker lacks only places. A list counts as empty when a claim has found
    /// nothing and no wait has ended since.
    public mutating func wantsPlaces(now: Instant) -> Bool { machine.wantsPlaces(at: now) }

    /// Settles a job that APNs accepted at the first attempt, without a result: nearly all jobs.
    ///
    /// - Parameter campaign: of a `CampaignToken`.
    public mutating func acknowledge(_ id: ClaimID, ofCampaign campaign: String? = nil) {
        machine.acknowledge(id, ofCampaign: campaign, now: now)
    }

    /// Settles a job. The settlement is sent with its batch.
    public mutating func settle(_ settlement: consuming Settlement) {
        let isAside = settlement.aside != nil
        machine.settle(settlement, now: now)
        if isAside { machine.reportAsides(into: &effects) }
    }

    /// Counts a push that APNs may receive twice: `maybe_duplicate`. Sent with the next batch, before its job is settled.
    public mutating func countMaybeDuplicate() { machine.countMaybeDuplicate(now: now) }

    /// Counts an outcome of a campaign without a settlement. Sent with the next batch.
    public mutating func count(_ outcome: CampaignOutcome) { machine.count(outcome, now: now) }

    /// Stops claiming. Held jobs are released to the head of the list in their order. `.stopped` follows once every settlement is
    /// confirmed and the worker is unregistered.
    ///
    /// Without a connection `.stopped` follows at once if nothing is held or unconfirmed, and otherwise after the reconnect.
    public mutating func stop() {
        machine.stop()
    }

    /// The address of the server, if the settings do not name it: behind Sentinels, or another node of the cluster.
    public var discoveredServer: Endpoint? { search.locator.discovered }

    /// When the last confirmed beat was sent; `nil` before the first.
    public var lastContact: Instant? { machine.lastContact }

    /// The time from which no held job may be sent: other workers may then soon take them over. Each confirmed beat moves it.
    /// `nil` without a lease: before the first contact, in `at_most_once`, and after the event `.leaseInDoubt`.
    public var sendingDeadline: Instant? { mutating get { machine.sendingDeadline } }

    /// The time to the reply of a call that does not wait for jobs: smoothed, and at least the age of the oldest call.
    public mutating func latency(now: Instant) -> Duration {
        let oldest = control?.oldest ?? nil
        return max(smoothedLatency, oldest.map { now - $0 } ?? .zero)
    }

    /// Whether Redis has confirmed every settlement.
    public var isSettled: Bool { machine.holdings.isSettled }

    // MARK: The turn

    private mutating func receive(_ poller: borrowing Poller) {
        if let result = search.turn(poller, now: now) { dial(result) }
        do throws(RedisError) {
            try control?.receive(poller, now: now)
            try waiter?.receive(poller, now: now)
        } catch {
            // Replies that arrived before the end count.
            takeReplies()
            return machine.lost(error.description, now: now, into: &effects)
        }
        takeReplies()
    }

    private mutating func takeReplies() {
        while let incoming = control?.next() ?? waiter?.next() {
            // A reply may end the connection; those behind it are void then, and go with it.
            if machine.phase == .disconnected || machine.phase == .stopped { return }
            if case .greeting(let greeting) = incoming.sent.tag {
                greeted(incoming.reply, greeting)
            } else if case .error(let error) = incoming.reply, error.kind == .scriptMissing {
                encoder.forgetScripts()
                send(incoming.sent.tag)
            } else {
                if !incoming.sent.tag.isOnSecond { measured(now - incoming.sent.at) }
                machine.received(
                    incoming.reply, to: incoming.sent.tag, sentAt: incoming.sent.at, now: now, isGone: WorkerName.isGone,
                    into: &effects)
            }
        }
    }

    /// A quarter by a shift: the division of a `Duration` is 600 instructions.
    private mutating func measured(_ latency: Duration) {
        smoothedLatency += Duration(attoseconds: (latency - smoothedLatency).attoseconds >> 2)
    }

    private mutating func greeted(_ reply: RedisReply, _ greeting: Login.Step) {
        if let error = greeting.error(in: reply) ?? (greeting == .role ? search.locator.faultOfRole(reply) : nil) {
            failed(error)
        } else {
            greetingsMissing -= 1
            if greetingsMissing == 0 { machine.connected(into: &effects) }
        }
    }

    private mutating func failed(_ error: RedisError) {
        if error.isRefusal {
            machine.refused(error, now: now, into: &effects)
        } else {
            machine.lost(error.description, now: now, into: &effects)
        }
    }

    private mutating func perform(_ events: inout [QueueEvent]) {
        if effects.isEmpty { return }
        swap(&effects, &performing)
        for effect in performing {
            switch effect {
            case .dial: if let result = search.begin(now: now) { dial(result) }
            case .hangUp:
                search.cancel()
                control = nil
                waiter = nil
            case .follow(let node): search.locator.moved(to: node)
            case .learn(let nodes): search.locator.learned(Endpoint.nodes(nodes, besides: search.locator.current))
            case .call(let call): send(call)
            case .wait(let claim):
                wait(.wait)
                if let claim { wait(.claim(claim)) }
            case .rename: rename()
            case .report(let event):
                switch event {
                case .connected, .resumed: search.locator.confirmed()
                default: break
                }
                events.append(event)
            }
        }
        performing.removeAll(keepingCapacity: true)
    }

    private mutating func rename() {
        let name = WorkerName.unique()
        worker = name.text
        encoder = JobQueue.encoder(encoder.settings, name, version: version)
        machine.renamed(to: worker, into: &effects)
    }

    private mutating func send(_ call: Call) {
        let number = machine.number
        control?.send(call, now: now) { encoder.write(call, number: number, to: &$0) }
        if case .claim(let claim) = call { send(.jobs(of: claim)) }
    }

    private mutating func wait(_ call: Call) {
        let number = machine.number
        waiter?.send(call, blocking: .seconds(CallEncoder.waitSeconds), now: now) { encoder.write(call, number: number, to: &$0) }
        if case .claim(let claim) = call { wait(.jobs(of: claim)) }
    }

    private mutating func dial(_ result: ServerSearch.Result) {
        do throws(RedisError) {
            switch result {
            case .failed(let error): throw error
            case .found(let endpoint, let addresses, let attempt):
                let address = addresses[attempt % addresses.count]
                encoder.forgetScripts()
                let greeting = Login.commands(encoder.settings)
                greetingsMissing = 2 * greeting.count
                control = try connection(endpoint, address, greeting)
                waiter = try connection(endpoint, address, greeting)
            }
        } catch {
            failed(error)
        }
    }

    private func connection(
        _ endpoint: Endpoint, _ address: SocketAddress, _ greeting: [(Login.Step, Arguments)]
    ) throws(RedisError) -> RedisConnection<Call> {
        var connection = try RedisConnection<Call>(
            to: address, of: endpoint, tls: search.tls, timeout: settings.timeout, now: now)
        for (greeting, command) in greeting { connection.send(.greeting(greeting), now: now) { $0.appendCommand(command) } }
        return connection
    }

    private mutating func flushConnections() {
        do throws(RedisError) {
            try control?.flush(now: now)
            try waiter?.flush(now: now)
        } catch {
            machine.lost(error.description, now: now, into: &effects)
        }
    }
}
