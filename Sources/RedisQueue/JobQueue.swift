public import Clocks
import Glibc
public import Sockets
public import Threads

/// One list, its jobs in flight, and the two connections that carry them; owned by one thread, which sleeps on its
/// descriptors and gives it turns. It reconnects for ever.
///
/// A thin shell: `QueueMachine` decides, `CallEncoder` words it, `RedisConnection` carries it.
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
    private var incoming: [RedisConnection<Call>.Incoming] = []
    private var now = Instant.now

    private static let instances = Locked(0)

    /// The name under which Redis knows this worker.
    public let worker: String

    /// - Parameters:
    ///   - version: of the program, for `status`.
    ///   - tls: what to trust when Redis is reached by TLS; `nil` for none.
    public init(settings: QueueSettings, version: String, tls: TLSContext? = nil) {
        let instance = JobQueue.instances.withLock { count in
            count += 1
            return count
        }
        self.init(settings: settings, version: version, tls: tls, worker: .make(instance: instance))
    }

    init(settings: QueueSettings, version: String, tls: TLSContext? = nil, worker: WorkerName) {
        self.settings = settings
        search = ServerSearch(settings, tls: tls)
        self.worker = worker.text
        machine = QueueMachine(settings: settings, worker: worker.text, seed: .random(in: .min ... .max), now: .now)
        let information = [
            "host", worker.host, "pid", String(worker.pid), "version", version, "started", String(time(nil)),
        ]
        let birthMark = Int64.random(in: 0...Int64.max / 2)
        encoder = CallEncoder(settings: settings, worker: worker, information: information, birthMark: birthMark)
    }

    /// Adds the descriptors to sleep on. Belongs before each sleep, on a poller that was reset.
    public mutating func addInterests(to poller: inout Poller) {
        search.addInterest(to: &poller)
        control?.addInterest(to: &poller)
        waiter?.addInterest(to: &poller)
    }

    /// Takes over what may change while the queue runs: what to trust and to show and the user, from the next connection on; where
    /// results go and how many of them and of the dead letters are kept. All else stays.
    public mutating func adopt(_ settings: QueueSettings, tls: TLSContext?) {
        search.tls = tls
        encoder.adopt(settings)
    }

    /// When it wants its next turn at the latest.
    public var deadline: Instant? {
        var next = Earliest(machine.deadline)
        next.consider(search.deadline)
        next.consider(JobQueue.deadline(of: control))
        next.consider(JobQueue.deadline(of: waiter))
        return next.instant
    }

    private static func deadline(of connection: borrowing RedisConnection<Call>?) -> Instant? {
        switch connection {
        case .some(let connection): connection.deadline
        case .none: nil
        }
    }

    /// Reads what came and decides. Appends what the owner must know. `write` belongs to each turn too, after the owner has handed on
    /// what is urgent: the system call that wakes Redis costs a job that was just claimed more than all that is done here.
    ///
    /// - Parameter poller: the one that `addInterests` was last called with.
    public mutating func turn(_ poller: borrowing Poller, now: Instant, events: inout [QueueEvent]) {
        self.now = now
        receive(poller)
        machine.advance(now: now)
        perform(&events)
    }

    /// Writes all that the turn made necessary, with one write for each connection.
    public mutating func write(events: inout [QueueEvent]) {
        flushConnections()
        // A connection that broke has its own consequences.
        while !machine.effects.isEmpty {
            perform(&events)
            flushConnections()
        }
    }

    /// How many more jobs the owner could take right now. The queue claims up to that, at most 250 at a time, when
    /// it is worth a round trip (`QueueMachine+Serving.swift` has the cadence). 0 claims nothing.
    ///
    /// More than that can come after a reconnect, jobs whose claim was answered into a lost connection; and when the places are taken
    /// back while an empty list is waited for: up to 32 jobs, which the owner releases.
    public mutating func offer(places: Int, now: Instant) {
        machine.offer(places: places, now: now)
    }

    /// Whether the list may hold jobs for which this worker only lacks places: as far as it knows, for a list is known to be empty
    /// when a claim has found nothing and nobody has pushed since.
    public func wantsPlaces(now: Instant) -> Bool { machine.wantsPlaces(at: now) }

    /// Hands over that APNs took a job at the first try, and nothing else: the way of nearly all jobs.
    public mutating func acknowledge(_ id: ClaimID) {
        machine.acknowledge(id, now: now)
    }

    /// Hands over a job's end; sent with the batch it falls into.
    public mutating func settle(_ settlement: consuming Settlement) {
        machine.settle(settlement, now: now)
    }

    /// Writes what is batched now and not at the end of its interval: little is in flight, or we are leaving.
    public mutating func flush() {
        machine.flush()
    }

    /// Claims nothing any more; `.stopped` follows once every settlement is confirmed and the worker is unregistered.
    /// Whatever it still holds then is released first, to the head of the list in order.
    ///
    /// While Redis is away `.stopped` comes at once if nothing is held or unconfirmed, and otherwise not before it is back.
    public mutating func stop() {
        machine.stop()
    }

    /// Where the server was found, when the settings name Sentinels, or another node of the cluster.
    public var discoveredServer: Endpoint? { search.whereabouts.discovered }

    /// When the last beat was sent that Redis has confirmed; `nil` before the first.
    public var lastContact: Instant? { machine.lease.lastContact }

    /// Whether Redis has confirmed every settlement that was handed over.
    public var isSettled: Bool { machine.settlements.isEmpty }

    // MARK: The turn

    private mutating func receive(_ poller: borrowing Poller) {
        if let result = search.turn(poller, now: now) { dial(result) }
        do throws(RedisError) {
            try control?.receive(poller, now: now, into: &incoming)
            try waiter?.receive(poller, now: now, into: &incoming)
        } catch {
            // What was answered before the end counts all the same.
            answer()
            return machine.lost(error.description, now: now)
        }
        answer()
    }

    private mutating func answer() {
        for answer in incoming {
            // An answer may end the connection; those behind it are void then.
            if machine.phase == .resting || machine.phase == .stopped { break }
            if case .greeting(let greeting) = answer.tag {
                greeted(answer.reply, greeting)
            } else if case .error(let text) = answer.reply, ErrorReply(text) == .scriptMissing {
                let (call, number) = (answer.tag, machine.number)
                control?.send(call, now: now) { encoder.writeInFull(call, number: number, to: &$0) }
            } else {
                machine.answered(answer.tag, answer.reply, sentAt: answer.sentAt, now: now, isGone: WorkerName.isGone)
            }
        }
        incoming.removeAll(keepingCapacity: true)
    }

    private mutating func greeted(_ reply: RedisReply, _ greeting: Call.Greeting) {
        if case .error(let text) = reply {
            let reason = greeting == .password ? CallEncoder.refusedPassword(text) : ErrorReply.withoutArguments(text)
            switch ErrorReply(reason) {
            case .refusal: machine.refused(reason, now: now)
            case .passing, .scriptMissing, .moved: machine.lost(reason, now: now)
            }
        } else if greeting == .role, let fault = search.whereabouts.faultOfRole(reply) {
            machine.lost(fault, now: now)
        } else {
            greetingsMissing -= 1
            if greetingsMissing == 0 { machine.connected() }
        }
    }

    private mutating func perform(_ events: inout [QueueEvent]) {
        let effects = machine.effects
        machine.effects = []
        for effect in effects {
            switch effect {
            case .dial: if let result = search.begin(now: now) { dial(result) }
            case .hangUp:
                search.cancel()
                control = nil
                waiter = nil
            case .follow(let text): search.whereabouts.moved(text)
            case .learn(let nodes): search.whereabouts.learned(Endpoint.nodes(nodes, besides: search.whereabouts.current))
            case .call(let call):
                let number = machine.number
                control?.send(call, now: now) { encoder.write(call, number: number, to: &$0) }
            case .wait(let ride):
                wait(.wait)
                if let ride { wait(ride) }
            case .report(let event):
                if case .connected = event { search.whereabouts.confirmed() }
                events.append(event)
            }
        }
    }

    private mutating func wait(_ call: Call) {
        let number = machine.number
        waiter?.send(call, patience: .seconds(CallEncoder.waitSeconds), now: now) { encoder.write(call, number: number, to: &$0) }
    }

    private mutating func dial(_ result: ServerSearch.Result) {
        do throws(RedisError) {
            switch result {
            case .failed(let error): throw error
            case .found(let endpoint, let attempt):
                encoder.forgetScripts()
                let greeting = encoder.greeting()
                greetingsMissing = 2 * greeting.count
                control = try connection(endpoint, attempt: attempt, greeting)
                waiter = try connection(endpoint, attempt: attempt, greeting)
            }
        } catch {
            if error.isRefusal { machine.refused(error.description, now: now) } else { machine.lost(error.description, now: now) }
        }
    }

    private func connection(
        _ endpoint: Endpoint, attempt: Int, _ greeting: [(Call, Arguments)]
    ) throws(RedisError) -> RedisConnection<Call> {
        var connection = try RedisConnection<Call>(
            to: endpoint, attempt: attempt, tls: search.tls, timeout: settings.timeout, now: now)
        for (call, command) in greeting { connection.send(call, now: now) { $0.appendCommand(command) } }
        return connection
    }

    private mutating func flushConnections() {
        do throws(RedisError) {
            try control?.flush()
            try waiter?.flush()
        } catch {
            machine.lost(error.description, now: now)
        }
    }
}
