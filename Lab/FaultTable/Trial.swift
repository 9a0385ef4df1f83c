internal import APNSSimulator
import Clocks
import Glibc
public import Harness
internal import RedisQueue

/// One run of a row: its stage, its daemons, who pushes the jobs, and what was injected so far.
public final class Trial {
    public enum Scale: Sendable {
        /// For the published table.
        case full
        /// For the test suite.
        case small
    }

    /// What is written into the table.
    public struct Result: Sendable {
        /// How often the fault was injected.
        public var times: Int
        public var accounting: Accounting
        /// The most that may have been delivered again.
        public var bound: Int
        /// `maybe_duplicate` of the daemons' own counters.
        public var counted: Int
        /// The longest time from the end of a fault until pushes went out again as fast as jobs came in.
        public var recovery: Duration?
        /// Jobs that Redis itself forgot, or that its operator took away, before they were sent.
        public var gone: Int
        /// What was not as it must be.
        public var failures: [String]

        /// The books of two trials of one row in one.
        static func + (one: Result, other: Result) -> Result {
            var sum = one
            sum.times += other.times
            sum.accounting += other.accounting
            sum.bound += other.bound
            sum.counted += other.counted
            sum.recovery = [one.recovery, other.recovery].compactMap(\.self).max()
            sum.gone += other.gone
            sum.failures += other.failures
            return sum
        }
    }

    /// A daemon has no more resident than this, whatever happens, unless the row says otherwise.
    static let memoryCap = (isThreadSanitized ? 512 : 64) << 20
    /// Jobs that a producer pushes in a second.
    static let rate = 2000

    let rule: Fault.Rule
    let scale: Scale
    let seed: UInt64
    var random: SeededGenerator
    var memoryCap = Trial.memoryCap
    /// How long to go on with it, where the row goes on for as long as it is told.
    let duration: Duration?
    /// Jobs whose token another job has as well: that many deliveries of it are no second ones.
    var alike = 0
    /// Which of how many trials of this row this is, where several run at the same time.
    var (place, stages) = (0, 1)
    /// Looks at the counters once all is settled.
    var afterwards: ((QueueStatus) throws -> Void)?
    /// The dead letters are no jobs of ours: the row itself has judged them.
    var countsDeadLettersOnly = false
    /// Nothing may be a dead letter but what the simulator answered 410, or 503 to all four sends.
    var diesOnlyByAnswers = false
    private(set) var stage: Stage! = nil
    private(set) var daemons: [DaemonProcess] = []
    private(set) var producer: Producer?
    /// The numbers of jobs that were queued without a producer.
    private(set) var queued = 0
    private(set) var times = 0
    private(set) var bound = 0
    private(set) var recovery: Duration?
    private(set) var failures: [String] = []
    private var wantedRate = Trial.rate
    private(set) var excused: Set<Int> = []
    /// What the simulator has accepted, as far as a row has looked.
    var tail = LedgerTail("")
    private var settings: [String: String?] = [
        "retry_delays": "[0.1, 0.2, 0.3]", "apns_dial_backoff_min": "0.01", "apns_dial_backoff_max": "1",
    ]
    private var settingsPath = ""
    /// The number of the first job of the producer.
    private var firstProduced = Int.max

    init(rule: Fault.Rule, scale: Scale, seed: UInt64, duration: Duration? = nil) {
        (self.rule, self.scale, self.seed, self.duration) = (rule, scale, seed, duration)
        random = SeededGenerator(seed: seed)
    }

    /// How often to inject: at most 3 times when the counts are small.
    func times(_ full: Int) -> Int { scale == .full ? full : min(full, 3) }

    /// How many jobs: a twentieth when the counts are small.
    func jobs(_ full: Int) -> Int { scale == .full ? full : max(200, full / 20) }

    /// Starts Redis, the simulator and, where they are wanted, proxies before both. No daemon yet.
    ///
    /// - Parameters:
    ///   - simulator: the arguments of one in a process of its own.
    ///   - behaviour: how one begins that takes orders while it runs, in place of that.
    ///   - remembers: whether that one keeps every request with its connection.
    func open(
        simulator: [String] = ["--latency", "5ms"], hosting behaviour: Behaviour? = nil, remembers: Bool = false,
        redis: [String] = [], on server: RedisServer? = nil, proxies: Bool = false, settings: [String: String?] = [:]
    ) throws {
        stage = try Stage(on: server ?? RedisServer(options: redis), proxySeed: proxies ? seed : nil) { folder in
            guard let behaviour else { return try SimulatorProcess(folder: folder, simulator) }
            return try HostedSimulator(folder: folder) {
                $0.behaviour = behaviour
                $0.ledgerDetail = remembers ? .requests(keepsBodies: false) : .counts
                $0.ledgerPath = folder.file("ledger")
            }
        }
        tail = LedgerTail(stage.ledgerPath)
        try write(settings: settings)
    }

    /// Writes the settings file anew with these changes; a daemon that runs takes them in at SIGHUP.
    func write(settings changes: [String: String?]) throws {
        settings.merge(changes) { $1 }
        settingsPath = try stage.write(settings)
    }

    /// Starts a daemon with the settings of `open`, or others.
    @discardableResult
    func start(
        _ name: String = "daemon", settings: String? = nil, under wrapper: [String] = [], log: ChildProcess.Output? = nil
    ) throws -> DaemonProcess {
        let daemon = try stage.start(settings ?? settingsPath, name: name, under: wrapper, log: log)
        daemons.append(daemon)
        return daemon
    }

    /// kill -9. From then on it is none of the daemons that must end well.
    func kill(_ daemon: DaemonProcess) {
        daemon.process.kill(SIGKILL)
        _ = daemon.process.wait()
        forget(daemon)
    }

    /// Its end is judged by the row itself.
    func forget(_ daemon: DaemonProcess) { daemons.removeAll { $0 === daemon } }

    static func job(_ number: Int) -> String {
        #"{"token":"\#(deviceToken(number))","identifier":\#(number),"data":{"aps":{"alert":"\#(number)"}}}"#
    }

    /// Queues so many jobs at once; returns when Redis has them.
    ///
    /// - Returns: their numbers.
    @discardableResult
    func queue(_ count: Int, atHead: Bool = false, _ job: (Int) -> String = Trial.job) throws -> Range<Int> {
        precondition(queued + count <= firstProduced, "a producer has these numbers")
        let numbers = queued..<queued + count
        try stage.push(numbers.lazy.map(job), with: atHead ? "LPUSH" : "RPUSH")
        queued += count
        return numbers
    }

    /// Queues one job for so many devices.
    func queueTogether(_ count: Int) throws {
        precondition(producer == nil, "queue before a producer starts")
        let tokens = (queued..<queued + count).map { #""\#(deviceToken($0))""# }.joined(separator: ",")
        try stage.push([#"{"tokens":[\#(tokens)],"data":{"aps":{"alert":"Hello"}}}"#])
        queued += count
    }

    /// The numbers of all jobs that Redis has acknowledged so far.
    func acknowledged() -> Set<Int> { Set(0..<queued).union(producer?.booksNow().acknowledged ?? []) }

    /// Redis itself forgot these, or its operator took them away: they may be delivered or not.
    func excuse(_ jobs: Set<Int>) {
        precondition(rule == .ofWhatRedisKept || rule == .survival, "nothing is excused in this row")
        excused.formUnion(jobs)
    }

    /// Lets jobs come in steadily from now on until the trial closes.
    ///
    /// - Parameter first: the number of the first of them, where `queue` is to have more.
    func produce(
        perSecond rate: Int = Trial.rate, from first: Int? = nil, _ job: @escaping @Sendable (Int) -> String = Trial.job
    ) throws {
        wantedRate = rate
        firstProduced = first ?? queued
        producer = try Producer(server: stage.server, first: firstProduced, perSecond: rate, job: job)
    }

    /// Lets no more jobs come in; returns what came.
    func stopProducing() -> Producer.Books { producer?.stop() ?? Producer.Books() }

    /// Injects the fault once. With a producer at work it then waits until as many pushes go out as jobs come in.
    ///
    /// - Parameter limit: generous: the machine may have other work. How long it took is in the result.
    func strike(backWithin limit: Duration = .seconds(60), _ body: () throws -> Void) throws {
        try body()
        times += 1
        guard producer != nil else { return }
        let start = Instant.now
        guard awaitRate(atMost: limit) else {
            throw TrialError(description: "not back \(limit) after fault \(times):\n" + logs)
        }
        let took = .now - start
        recovery = recovery.map { max($0, took) } ?? took
    }

    /// Mends what kept jobs in the list, and waits until they are gone from it. How long it took is in the result.
    func mend(backWithin limit: Duration, _ body: () throws -> Void) throws {
        let start = Instant.now
        try body()
        times += 1
        // Seldom, for others may be at work on stages of their own.
        try self.await("what waited is sent", atMost: limit, every: .milliseconds(50)) { try status().backlog < wantedRate }
        recovery = max(recovery ?? .zero, .now - start)
    }

    /// From now on everybody but the daemons that are connected speaks to this Redis.
    func turn(to server: RedisServer, leadingProxy: Bool = true) throws {
        try stage.turn(to: server, leadingProxy: leadingProxy)
        producer?.redirect(to: stage.server)
    }

    /// Counts an injection that needs no waiting after it.
    func count(_ injections: Int) { times += injections }

    /// So many more may have been delivered again.
    func allowTwice(_ count: Int) { bound += count }

    /// Something was not as it must be.
    func fail(_ remark: String) { failures.append(remark) }

    func pause(_ range: ClosedRange<Int>) {
        // Part of the fault's randomness, never a way to wait for something.
        _ = waitUntil(atMost: .milliseconds(Int.random(in: range, using: &random))) { false }
    }

    /// Waits for a condition that the row needs before it goes on.
    func await(
        _ what: String, atMost limit: Duration = .seconds(30), every interval: Duration = .milliseconds(2),
        _ condition: () throws -> Bool
    ) throws {
        guard try waitUntil(atMost: limit, every: interval, condition) else {
            throw TrialError(description: "waited in vain until \(what):\n" + logs)
        }
    }

    /// Waits until the daemons have sent so many, by Redis' own counter; Redis may be away meanwhile.
    func awaitSent(_ count: Int, atMost limit: Duration = .seconds(60)) throws {
        try self.await("\(count) are sent", atMost: limit) { (try? stage.sent()).map { $0 >= count } ?? false }
    }

    /// The last lines that the daemons wrote to standard error.
    var logs: String { String(stage.standardErrors.suffix(3000)) }

    /// Until nine of ten jobs that come in go out. On a loaded machine fewer come in than were wanted; but less than half of them
    /// would be a producer that has not found its Redis yet.
    private func awaitRate(atMost limit: Duration) -> Bool {
        var last: (sent: Int, pushed: Int, at: Instant)?
        return waitUntil(atMost: limit, every: .milliseconds(20)) {
            guard let sent = try? stage.sent() else { return false }
            let (pushed, now) = (producer?.acknowledged ?? 0, Instant.now)
            guard let before = last else {
                last = (sent, pushed, now)
                return false
            }
            // Jobs come in ten times a second: a shorter look would see none or twice as many.
            guard now - before.at >= .milliseconds(200) else { return false }
            last = (sent, pushed, now)
            let wanted = Double(wantedRate) * ((now - before.at) / .seconds(1))
            return Double(sent - before.sent) >= 0.9 * min(wanted, max(Double(pushed - before.pushed), wanted / 2))
        }
    }
}
