import ArgumentParser
import JSONBytes
import Platform
import RedisQueue

/// `gaplessd status`: prints the state of the lists and workers.
struct Status: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Prints the backlog, jobs in flight, dead letters and live workers. Reads only Redis.",
        discussion: """
            The rates of workers are measured between two readings, one second apart. Without a live worker, there is one reading.

            --json prints one object on one line. "backlog", "in_flight", "delayed", "recovered", "dead", "feedback", "workers" \
            (their number), "cancelled" and "counters" are sums over all lists; "paused" has the pauses of all lists. "lists" \
            has an object for each list with the same members, "list" (its name), "dead_reasons" (of the newest \
            \(StatusReading.lettersRead) dead letters) and "live_workers": name, host, pid, version, started, \
            in_flight, claimed, sent, claimed_per_second, sent_per_second and interval (the seconds between \
            the readings; null if not yet measured), and "apps": app, bottleneck, held, reason, paused, \
            sessions, streams, capacity, and with metrics_listen p50 and p99 (seconds from claim to response over the last ten \
            seconds). A daemon is one worker for each of its lists, and reports its apps within two seconds of a change.

            Exit status: 0 success, 64 wrong usage, 69 Redis did not respond, 78 a fault in the settings, or Redis refused access.
            """)

    @OptionGroup var file: SettingsArgument
    @Flag(help: "Print JSON.") var json = false
    @Flag(help: "Print a new reading every second until Ctrl-C.") var watch = false

    func run() throws {
        let settings = try file.loadSettings()
        if watch { return try StatusWatch(settings, json: json).run() }
        try Self.printOnce(settings, json: json)
    }

    /// Prints one reading, with the rates of the workers if there are any.
    static func printOnce(_ settings: Settings, json: Bool) throws {
        try RedisAccess.run(settings) { client in
            var reading = try StatusReading(&client, settings.lists)
            if reading.hasWorkers {
                Poller.sleep(reading.taken + .seconds(1) - .now)
                reading = try StatusReading(&client, settings.lists, after: reading)
            }
            StandardStreams.print(StatusReport(reading, settings).lines(json: json))
        }
    }
}

/// One reading of all lists from Redis. Each list is read atomically.
struct StatusReading {
    /// Number of newest dead letters that `dead_reasons` counts.
    static let lettersRead = 10_000

    var taken: Instant
    var lists: [StatusDocument.List]

    var hasWorkers: Bool { lists.contains { !$0.status.workers.isEmpty } }

    private mutating func measure(since before: StatusReading) {
        let interval = taken - before.taken
        let seconds = interval / .seconds(1)
        guard seconds > 0 else { return }
        for (index, earlier) in before.lists.enumerated() {
            for worker in lists[index].status.workers {
                guard let former = earlier.status.workers.first(where: { $0.name == worker.name }) else { continue }
                let rate = { (counter: String) in max(0, Double(worker.count(counter)) - Double(former.count(counter))) / seconds
                }
                lists[index].rates[worker.name] = .init(
                    claimed: rate("claimed"), sent: rate("sent"), interval: interval)
            }
        }
    }
}

extension StatusReading {
    /// - Parameter before: an earlier reading, from which the rates are measured.
    init(_ client: inout RedisClient, _ names: [String], after before: StatusReading? = nil) throws(RedisError) {
        self.init(taken: .now, lists: [])
        for (index, name) in names.enumerated() {
            let keys = Keys(list: name)
            let status = try QueueStatus.read(&client, keys)
            let known = before?.lists[index]
            // The reasons are the largest cost: they are counted again only if dead letters have come or gone.
            var list = StatusDocument.List(name: name, status: status, reasons: known?.reasons ?? [])
            if known?.status.deadLetterMark != status.deadLetterMark {
                var reader = DeadLetterSummary.Reader(status.dead, counted: Self.lettersRead, shown: 0, keys)
                while try reader.read(&client) {}
                list.reasons = reader.summary.reasons
            }
            lists.append(list)
        }
        if let before { measure(since: before) }
    }
}

/// Formats a reading for `status`.
struct StatusReport {
    private let reading: StatusReading
    /// False with `redis_delivery: at_most_once`, which does not store jobs in flight.
    private let knowsInFlight: Bool

    init(_ reading: StatusReading, _ settings: Settings) {
        var reading = reading
        let apps = Set(settings.appNames)
        for list in reading.lists.indices { reading.lists[list].apps = apps }
        self.reading = reading
        knowsInFlight = settings.redis.delivery == .atLeastOnce
    }

    func lines(json: Bool) -> [String] {
        if json { return [JSONValue.object(StatusDocument.fromRedis(reading.lists)).line] }
        return Array(reading.lists.map(block).joined(separator: [""]))
    }

    // MARK: Text

    /// Apps of a worker with a remark of their own.
    private static let mostRemarks = 10
    /// Workers of a list with lines of their own.
    private static let mostWorkers = 50

    private func block(_ list: StatusDocument.List) -> [String] {
        let status = list.status
        let silent = status.workers.count - status.living
        var lines = [
            "list        \(list.name.printable)",
            "backlog     \(status.backlog.grouped)\(asides(list))\(states(status))",
            "in flight   \(knowsInFlight ? status.inFlight.grouped : "not stored in Redis (at_most_once)")",
            "delayed     \(status.delayed.grouped)",
            "recovered   \(status.recovered.grouped)",
            "dead        \(status.dead.grouped)\(reasons(list))",
            "feedback    \(status.feedback.grouped)\(status.feedback > 0 ? "  unregistered or suspect tokens" : "")",
            "counters    "
                + Counter.allCases.map { "\($0.rawValue) \(status.counters[$0, default: 0].grouped)" }.joined(separator: ", "),
            "workers     \(status.living)\(silent > 0 ? ", and \(silent) silent" : "")",
        ]
        if status.cancelled > 0 {
            lines.insert("cancelled   \(status.cancelled.grouped)  'cancel --undo' restores them", at: 7)
        }
        lines.insert(contentsOf: status.pauses.map { "paused      \(PauseNote($0).scopedSentence.printable)" }, at: 1)
        // The silent ones first.
        let workers = status.workers.filter { $0.silence != nil } + status.workers.filter { $0.silence == nil }
        for worker in workers.prefix(Self.mostWorkers) { lines += self.lines(worker, list.rates[worker.name]) }
        if workers.count > Self.mostWorkers {
            lines.append("            and \((workers.count - Self.mostWorkers).counted("more worker"))")
        }
        return lines
    }

    /// The newest states of scopes, and the channels and tokens with a pause between two of them.
    private func states(_ status: QueueStatus) -> String {
        let waiting =
            status.states > 0
            ? "  newest states that wait: \(status.states), the oldest for \(status.stateAge.roundedSeconds) s" : ""
        return waiting + (status.paced > 0 ? "  paced channels and tokens: \(status.paced)" : "")
    }

    /// The apps with the most jobs in side lists.
    private func asides(_ list: StatusDocument.List) -> String {
        let apps = list.asides
        if apps.isEmpty { return "" }
        let shown = apps.prefix(6).map { app, jobs in
            "\(app.printable) \(jobs.grouped)" + (list.isRemoved(aside: app) ? " (removed: not in the settings)" : "")
        }
        let rest = apps.dropFirst(6).reduce(0) { $0 &+ $1.jobs }
        let others = apps.count > 6 ? ["\((apps.count - 6).counted("other app")) \(rest.grouped)"] : []
        return "  set aside until their app can take them: \((shown + others).joined(separator: ", "))"
    }

    /// The most frequent reasons. Names the number of counted dead letters if not all were counted.
    private func reasons(_ list: StatusDocument.List) -> String {
        if list.reasons.isEmpty { return "" }
        let shown = list.reasons.prefix(6).map { "\($0.count.grouped) \($0.reason.isEmpty ? "no reason" : $0.reason.printable)" }
        let others = list.reasons.dropFirst(6).reduce(0) { $0 + $1.count }
        let all = shown + (others > 0 ? [others.counted("other")] : [])
        let read = list.reasons.reduce(0) { $0 + $1.count }
        return "  \(all.joined(separator: ", "))" + (read < list.status.dead ? " (of the newest \(read.grouped))" : "")
    }

    private func lines(_ worker: QueueStatus.Worker, _ rate: StatusDocument.List.Rate?) -> [String] {
        let detail = { (name: String) in (worker.details[name] ?? "unknown").printable }
        let started = worker.details["started"].flatMap { Int64($0) }.map(LocalTime.zoned) ?? "unknown"
        let speed = rate.map { rate in
            "\(rate.claimed.rate)/s claimed, \(rate.sent.rate)/s sent (over \(rate.interval.roundedSeconds) s)"
        }
        let (claimed, sent) = (worker.count("claimed").grouped, worker.count("sent").grouped)
        let lines = [
            "            \(detail("host")), pid \(detail("pid")), gaplessd \(detail("version")), since \(started)",
            "              \(worker.inFlight.grouped) in flight, claimed \(claimed), sent \(sent)",
        ]
        // What it reported last is not its present state.
        if let silence = worker.silence { return lines + ["              silent for \((silence / .seconds(1)).span)"] }
        return lines + ["              \(speed ?? "no rates yet")"] + apps(of: worker).map { "              \($0.printable)" }
    }

    /// The apps with problems, and the number of the others if the worker does not report all.
    private func apps(of worker: QueueStatus.Worker) -> [String] {
        let all = ReportedApp.all(of: worker)
        let remarks = AppOverview(all.map(\.rank), most: all.count).shown.compactMap { all[$0].remark }
        let hidden = remarks.count - Self.mostRemarks
        return remarks.prefix(Self.mostRemarks) + (hidden > 0 ? ["and \(hidden.counted("more app")) with a remark"] : [])
            + (ReportedApp.total(of: worker) > all.count ? [ReportedApp.sentence(ReportedApp.counts(of: worker))] : [])
    }
}
