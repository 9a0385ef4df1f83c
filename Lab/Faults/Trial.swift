internal import APNSSimulator
import Glibc
public import Harness
import Platform
internal import RedisQueue

/// One run of a row: its stage, its daemons, its producer, and the injections so far.
public final class Trial {
    public enum Scale: Sendable {
        /// For the published table.
        case full
        /// For the test suite.
        case small
    }

    /// The figures for the table.
    public struct Result: Sendable {
        /// The number of injections.
        public var times = 0
        public var accounting = Accounting(queued: [], ledger: Ledger(""), dead: [])
        /// The largest allowed number of duplicates.
        public var bound = 0
        /// The counter `maybe_duplicate` of the daemons.
        public var counted = 0
        /// The longest time from the end of a fault until pushes are again sent as fast as jobs arrive.
        public var recovery: Duration?
        /// Jobs that Redis forgot, or that its operator removed, before they were sent.
        public var gone = 0
        public var figures = DaemonFigures()
        /// The violated conditions.
        public var failures: [String] = []
        /// Figures of this row alone, which are printed and not judged.
        public var notes: [String] = []

        /// Adds the results of two trials of one row.
        static func + (one: Result, other: Result) -> Result {
            var sum = one
            sum.times += other.times
            sum.accounting += other.accounting
            sum.bound += other.bound
            sum.counted += other.counted
            sum.recovery = [one.recovery, other.recovery].compactMap(\.self).max()
            sum.gone += other.gone
            sum.figures.add(other.figures)
            sum.failures += other.failures
            sum.notes += other.notes
            return sum
        }
    }

    /// The largest resident memory of a daemon, in bytes, unless the row has another limit.
    static let memoryCap = Sanitizer.memoryBound(64 << 20)
    /// Jobs per second of a producer.
    static let rate = 2000

    let rule: Fault.Rule
    let scale: Scale
    let seed: UInt64
    /// The path of a daemon of 0.1.0, if there is one.
    let older: String?
    var random: SeededGenerator
    var memoryCap = Trial.memoryCap
    /// The length of rows without an end of their own.
    let duration: Duration?
    /// The number of jobs that share the token of another job: their deliveries are no duplicates.
    var identical = 0
    /// The number of this trial, and of all trials of the row at the same time.
    var (place, stages) = (0, 1)
    /// Verifies the counters when all jobs are settled.
    var afterwards: ((QueueStatus) throws -> Void)?
    /// Whether the row has verified the dead letters itself, because they are no jobs of the trial.
    var countsDeadLettersOnly = false
    /// Whether a dead letter requires a 410, or a 503 to all four sends.
    var diesOnlyByAnswers = false
    private(set) var stage: Stage! = nil
    /// The app of which a row disturbs the path, the credential or the responses.
    var secondApp: DisturbedApp?
    private(set) var daemons: [DaemonProcess] = []
    private(set) var producer: Producer?
    /// The number of jobs that were queued without a producer.
    private(set) var queued = 0
    /// The figures so far; `close` adds those of the accounting.
    private var result = Result()
    /// Whether the producer hands over each of its pushes as a campaign.
    var producesCampaigns = false
    private var wantedRate = Trial.rate
    private(set) var excused: Set<Int> = []
    /// The accepted pushes, as far as the row has read the ledger.
    var tail = LedgerTail("")
    private(set) var settings: [String: String?] = [
        "retry_delays": "[0.1, 0.2, 0.3]", "apns_dial_backoff_min": "0.01", "apns_dial_backoff_max": "1",
    ]
    private var settingsPath = ""
    /// The number of the first job of the producer.
    private var firstProduced = Int.max

    init(rule: Fault.Rule, scale: Scale, seed: UInt64, older: String? = nil, duration: Duration? = nil) {
        (self.rule, self.scale, self.seed, self.older, self.duration) = (rule, scale, seed, older, duration)
        random = SeededGenerator(seed: seed)
        // Beside other tests a debug build may need more than 15 seconds for 2,000 requests. They would be sent twice.
        if scale == .small { settings.merge(["apns_request_timeout": "60", "apns_max_concurrent_streams": "100"]) { $1 } }
    }

    /// The number of injections so far.
    var times: Int { result.times }

    /// The number of injections: at most 3 with small counts.
    func times(_ full: Int) -> Int { scale == .full ? full : min(full, 3) }

    /// The number of jobs: a twentieth with small counts.
    func jobs(_ full: Int) -> Int { scale == .full ? full : max(200, full / 20) }

    /// Starts Redis, the simulator and optional proxies in front of both. Starts no daemon.
    ///
    /// - Parameters:
    ///   - simulator: the arguments of a simulator in its own process.
    ///   - behaviour: starts a simulator in this process instead, which the row can change.
    ///   - remembers: whether that simulator keeps every request with its connection.
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

    /// Writes the settings file with these changes; a running daemon reads them at SIGHUP.
    func write(settings changes: [String: String?]) throws {
        settings.merge(changes) { $1 }
        settingsPath = try stage.write(settings)
    }

    /// Starts a daemon with the settings of `open`, or others; the other parameters are those of `DaemonProcess`.
    @discardableResult
    func start(
        _ name: String = "daemon", settings: String? = nil, program: String? = nil, under wrapper: [String] = [],
        log: ChildProcess.Output? = nil
    ) throws -> DaemonProcess {
        let daemon = try stage.start(settings ?? settingsPath, name: name, program: program, under: wrapper, log: log)
        daemons.append(daemon)
        return daemon
    }

    /// Sends SIGKILL, and forgets the daemon.
    func kill(_ daemon: DaemonProcess) {
        daemon.process.kill(SIGKILL)
        _ = daemon.process.wait()
        forget(daemon)
    }

    /// Sends SIGTERM, and waits for the exit. The daemon must exit with 0 within `drain_timeout` and five seconds, and must not
    /// have exceeded its memory.
    func stop(_ daemon: DaemonProcess) {
        forget(daemon)
        judgeMemory(of: daemon)
        if let turn = daemon.longestTurn() { result.figures.add(turn: turn) }
        let drain = Duration.seconds((settings["drain_timeout"] ?? nil).flatMap { Double($0) } ?? 20)
        let start = Instant.now
        let exit = daemon.stop(atMost: drain + .seconds(60))
        let took = Instant.now - start
        result.figures.add(exitTime: took)
        if exit?.status != 0 { fail("gaplessd exited with \(String(describing: exit)):\n\(logs)") }
        if took > drain + DaemonFigures.mostBeyondDrain { fail("the exit took \(took), with a drain_timeout of \(drain)") }
    }

    /// Verifies the memory of a daemon before its end.
    func judgeMemory(of daemon: DaemonProcess) {
        let peak = daemon.peakBytes
        if peak > memoryCap { fail("gaplessd had \(peak >> 20) MB resident, at most \(memoryCap >> 20) MB are allowed") }
    }

    func add(turn: Duration) { result.figures.add(turn: turn) }

    /// Measures the processor time of daemons that have nothing to do, for a second or longer. Other work of the daemons may end
    /// in the first seconds; a loop without a sleep does not.
    func measureIdleness(of daemons: [DaemonProcess], for length: Duration = .seconds(2)) {
        var least = Double.infinity
        for _ in 1...3 where least > DaemonFigures.mostIdleShare {
            let (start, before) = (Instant.now, daemons.map(\.processorTime))
            pause(length)
            let shares = daemons.indices.map { (daemons[$0].processorTime - before[$0]) / (Instant.now - start) }
            least = min(least, shares.max() ?? 0)
        }
        result.figures.add(idleShare: least)
    }

    /// Excludes a daemon from the checks at the end.
    func forget(_ daemon: DaemonProcess) { daemons.removeAll { $0 === daemon } }

    static func job(_ number: Int) -> String {
        #"{"token":"\#(deviceToken(number))","identifier":\#(number),"data":{"aps":{"alert":"\#(number)"}}}"#
    }

    /// Queues jobs, and returns their numbers when Redis has acknowledged them.
    @discardableResult
    func queue(
        _ count: Int, atHead: Bool = false, to list: String = Stage.list, _ job: (Int) -> String = Trial.job
    ) throws -> Range<Int> {
        precondition(queued + count <= firstProduced, "a producer has these numbers")
        let numbers = queued..<queued + count
        try stage.push(numbers.lazy.map(job), to: list, with: atHead ? "LPUSH" : "RPUSH")
        queued += count
        return numbers
    }

    /// Queues one job for several devices.
    ///
    /// - Parameter extra: the value of an unknown key.
    func queueTogether(_ count: Int, extra: String = "") throws {
        precondition(producer == nil, "queue before a producer starts")
        let tokens = (queued..<queued + count).map { #""\#(deviceToken($0))""# }.joined(separator: ",")
        try stage.push([#"{"tokens":[\#(tokens)],"data":{"aps":{"alert":"Hello"}},"x":"\#(extra)"}"#])
        queued += count
    }

    /// Returns the numbers of all acknowledged jobs so far.
    func acknowledged() -> Set<Int> { Set(0..<queued).union(producer?.recordNow().acknowledged ?? []) }

    /// Excuses jobs that Redis forgot or that its operator removed: they may be delivered or not.
    func excuse(_ jobs: Set<Int>) {
        precondition(rule == .ofWhatRedisKept || rule == .survival, "this row excuses no job")
        excused.formUnion(jobs)
    }

    /// Produces jobs steadily until the trial closes.
    ///
    /// - Parameter first: the number of the first job, if `queue` adds more jobs later.
    func produce(
        perSecond rate: Int = Trial.rate, from first: Int? = nil, _ job: @escaping @Sendable (Int) -> String = Trial.job
    ) throws {
        // A debug build beside others hardly sends 2,000 tokens per second of campaigns that begin ten times per second.
        let rate = producesCampaigns && scale == .small ? rate / 4 : rate
        wantedRate = rate
        firstProduced = first ?? queued
        producer = try Producer(server: stage.server, first: firstProduced, perSecond: rate) { [producesCampaigns] numbers in
            producesCampaigns ? Trial.campaign(numbers) : ["RPUSH", Stage.list] + numbers.map(job)
        }
    }

    /// Returns the command that hands over the tokens of these jobs, and pushes the job of their campaign.
    private static func campaign(_ numbers: Range<Int>) -> [String] {
        let (kind, add) = [("list", "RPUSH"), ("set", "SADD"), ("zset", "ZADD")][numbers.lowerBound / 10 % 3]
        let key = "audience:\(kind):\(numbers.lowerBound)"
        let job = #"{"tokens_from":"\#(key)","campaign":"\#(numbers.lowerBound)","data":{"aps":{"alert":"Hello"}}}"#
        let tokens = numbers.flatMap { (kind == "zset" ? ["\($0)"] : []) + [deviceToken($0)] }
        let script = "redis.call('\(add)', KEYS[2], unpack(ARGV, 2)) return redis.call('RPUSH', KEYS[1], ARGV[1])"
        return ["EVAL", script, "2", Stage.list, key, job] + tokens
    }

    /// Stops the producer and returns its record.
    func stopProducing() -> Producer.Record { producer?.stop() ?? Producer.Record() }

    /// Injects the fault once. With a producer, it then waits until pushes are sent as fast as jobs arrive.
    ///
    /// - Parameter limit: generous, because the machine may be busy. The result contains the time.
    func inject(backWithin limit: Duration = .seconds(60), _ body: () throws -> Void) throws {
        try body()
        result.times += 1
        guard producer != nil else { return }
        let start = Instant.now
        guard awaitRate(atMost: limit) else {
            throw TrialError(description: "no recovery within \(limit) after fault \(times):\n" + logs)
        }
        let took = .now - start
        result.recovery = max(result.recovery ?? .zero, took)
    }

    /// Ends a fault that kept jobs in the list, and waits until they are sent. The result contains the time.
    func repair(backWithin limit: Duration, _ body: () throws -> Void) throws {
        let start = Instant.now
        try body()
        result.times += 1
        // Rarely, because other stages may run at the same time.
        try self.await("the waiting jobs are sent", atMost: limit, every: .milliseconds(50)) { try status().backlog < wantedRate }
        result.recovery = max(result.recovery ?? .zero, .now - start)
    }

    /// Leads all new connections to this Redis.
    func turn(to server: RedisServer, leadingProxy: Bool = true) throws {
        try stage.turn(to: server, leadingProxy: leadingProxy)
        producer?.redirect(to: stage.server)
    }

    /// Counts injections that need no recovery.
    func count(_ injections: Int) { result.times += injections }

    /// Allows more duplicates.
    func allowTwice(_ count: Int) { result.bound += count }

    /// Reports a violated condition.
    func fail(_ remark: String) { result.failures.append(remark) }

    /// Adds a figure of this row alone.
    func note(_ text: String) { result.notes.append(text) }

    /// Lets a random number of milliseconds pass: a part of the fault, never a way to wait for a condition.
    func pause(_ range: ClosedRange<Int>) { pause(.milliseconds(Int.random(in: range, using: &random))) }

    /// Lets time pass.
    func pause(_ length: Duration) {
        let end = Instant.now + length
        _ = waitUntil(atMost: length, every: .milliseconds(1)) { .now >= end }
    }

    /// Waits for a condition, and fails the trial at the limit.
    func await(
        _ what: String, atMost limit: Duration = .seconds(30), every interval: Duration = .milliseconds(2),
        _ condition: () throws -> Bool
    ) throws {
        guard try waitUntil(atMost: limit, every: interval, condition) else {
            throw TrialError(description: "timeout while waiting until \(what):\n" + logs)
        }
    }

    /// Waits until the counter of sent jobs has this value; Redis may be unavailable meanwhile.
    func awaitSent(_ count: Int, atMost limit: Duration = .seconds(60)) throws {
        try self.await("\(count) jobs are sent", atMost: limit) { (try? stage.sent()).map { $0 >= count } ?? false }
    }

    /// The last lines of the standard errors of the daemons, without those of single jobs.
    var logs: String {
        let lines = stage.standardErrors.split(separator: "\n").filter { !$0.contains("SendPayload Error") }
        return String(lines.joined(separator: "\n").suffix(3000))
    }

    /// Waits until nine of ten arriving jobs are sent; in the test suite, until one of ten is, because a debug build beside other
    /// tests may not keep up. On a busy machine fewer jobs arrive than configured; with less than half of them, the producer has
    /// not found its Redis yet.
    private func awaitRate(atMost limit: Duration) -> Bool {
        var last: (sent: Int, pushed: Int, at: Instant)?
        return waitUntil(atMost: limit, every: .milliseconds(20)) {
            guard let sent = try? stage.sent() else { return false }
            let (pushed, now) = (producer?.acknowledged ?? 0, Instant.now)
            guard let before = last else {
                last = (sent, pushed, now)
                return false
            }
            // Jobs arrive ten times a second: a shorter interval would show none or twice as many.
            guard now - before.at >= .milliseconds(200) else { return false }
            last = (sent, pushed, now)
            let wanted = Double(wantedRate) * ((now - before.at) / .seconds(1))
            let arrived = min(wanted, max(Double(pushed - before.pushed), wanted / 2))
            return Double(sent - before.sent) >= (scale == .full ? 0.9 : 0.1) * arrived
        }
    }
}

extension Trial {
    /// Waits until all jobs are settled, stops all programs, and verifies the accounting.
    func close() throws -> Result {
        let record = stopProducing()
        var sent = -1
        while !waitUntil(atMost: .seconds(120), { (try? stage.status().isDrained) ?? false }) {
            let now = (try? stage.sent()) ?? -1
            if now <= sent {
                throw TrialError(description: "nothing sent in two minutes, not drained: \(try stage.status())\n" + logs)
            }
            sent = now
        }
        // A new daemon may not handle signals yet.
        _ = waitUntil(atMost: .seconds(30)) { (try? daemons.allSatisfy { try isRegistered($0) }) ?? false }
        if !daemons.isEmpty { measureIdleness(of: daemons, for: .seconds(1)) }
        endDaemons()
        let status = try stage.status()
        _ = stage.service.stop()
        if rule == .survival { excuse(Set(0..<queued).union(record.acknowledged)) }
        try afterwards?(status)
        let queued = Set(0..<queued).union(record.acknowledged).subtracting(excused)
        let maybe = record.unknown.union(excused)
        let ledger = stage.ledger
        let dead = countsDeadLettersOnly ? [] : try stage.deadLetterCounts().tokens
        var accounting = Accounting(
            queued: Set(queued.map(deviceToken)), maybe: Set(maybe.map(deviceToken)), ledger: ledger,
            dead: dead)
        accounting.dead = status.dead
        accounting.addIdentical(identical)
        judge(accounting, status)
        if producesCampaigns { try noteFigures() }
        if diesOnlyByAnswers { judgeDeaths(dead, ledger) }
        if !result.failures.isEmpty { fail("the log ends with:\n\(logs)") }
        (result.accounting, result.counted) = (accounting, status.counter(.maybeDuplicate))
        result.gone = Set(excused.map(deviceToken)).subtracting(ledger.accepted.keys).subtracting(dead).count
        return result
    }

    /// Counts the campaigns of which figures are missing: those of the last batch of a daemon that was killed, and those that
    /// Redis has forgotten.
    private func noteFigures() throws {
        var client = try RedisClient(settings: stage.server)
        let all = try CampaignList(stage.keys).read(most: .max, &client)
        if all.isEmpty { fail("there was no campaign: the fault was not tested") }
        note("\(all.count) campaigns, the figures of \(all.count { $0.remaining > 0 }) lack a batch")
    }

    private func endDaemons() {
        for daemon in daemons {
            if let exit = daemon.process.poll() { fail("gaplessd exited by itself: \(exit)") }
            stop(daemon)
        }
    }

    private func judgeDeaths(_ dead: [String], _ ledger: Harness.Ledger) {
        let answers = ledger.statuses
        for token in dead {
            let statuses = answers[token, default: []]
            if !statuses.contains(410) && statuses.count(where: { $0 == 503 }) < 4 {
                fail("\(token) is a dead letter after the responses \(statuses)")
            }
        }
    }

    private func judge(_ accounting: Accounting, _ status: QueueStatus) {
        if rule == .survival { return }
        if accounting.lost > 0 || accounting.unexpected > 0 { fail("\(accounting)") }
        let allowed = rule == .nothingTwice ? 0 : result.bound
        if accounting.extra > allowed { fail("\(accounting.extra) were delivered twice, at most \(allowed) are allowed") }
        let counted = status.counter(.maybeDuplicate)
        if accounting.extra > counted { fail("\(accounting.extra) were delivered twice, but maybe_duplicate is \(counted)") }
        if status.unexplained != 0 {
            let counters = status.counters.map { "\($0.key.rawValue) \($0.value)" }.sorted().joined(separator: ", ")
            fail("\(status.unexplained) claimed jobs that no counter explains: \(counters)")
        }
        do {
            let left = try stage.leftoverKeys()
            if !left.isEmpty { fail("left in Redis: \(left.joined(separator: " "))") }
        } catch {
            fail("cannot list the keys in Redis: \(error)")
        }
    }
}

/// A run without a result.
public struct TrialError: Error, CustomStringConvertible {
    public var description: String

    public init(description: String) { self.description = description }
}

/// The machine does not allow this row.
public struct TrialNotPossibleError: Error, CustomStringConvertible {
    public var description: String
}
