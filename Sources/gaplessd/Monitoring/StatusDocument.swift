import JSONBytes
import Platform
import PushPool
import RedisQueue

/// The document of `GET /status.json`, which the page draws. Its part from Redis has the members of `status --json`.
/// docs/metrics.md describes it.
struct StatusDocument {
    /// Changes when a member ends or changes its meaning.
    static let version = 1

    /// The settings that concern the document.
    struct Options: Sendable {
        /// The path of the settings, for commands.
        var file: String
        /// Whether device tokens are cut (`log_redact`).
        var redacts: Bool
    }

    var reading: RedisReading
    /// The dispatcher's latest; `nil` before its first.
    var notice: ProcessBoard.Notice?
    var history: History
    var system: SystemFacts
    var now: Instant
    var wallClock: WallClock
    var options: Options
    /// Only apps whose names contain this text, in any case; empty for all.
    var appFilter = ""

    /// Workers in `live_workers` of one list: those with the most jobs in flight.
    static let mostWorkers = 100
    /// Apps in `live_workers` of one list, for all workers together.
    private static let mostReportedApps = 200
    /// Reasons in `dead_reasons`; the numbers of more are together in `(others)`.
    static let mostReasons = 50
    /// Apps in `asides` of one list.
    static let mostAsides = 50
    /// Pauses in `paused` and `notes`.
    static let mostPauses = 100

    var object: JSONValue {
        let faults = Readiness.faults(notice, now: now)
        return .object(
            [
                JSONMember("version", .integer(Self.version)), JSONMember("at", .integer(wallClock.unixSeconds)),
                JSONMember("ready", .bool(faults.isEmpty)),
                JSONMember("state", .string(Readiness.state(notice, now: now).rawValue)),
                JSONMember("faults", .array(faults.map(JSONValue.string))),
                JSONMember("notes", .array(Readiness.pauses(notice).prefix(Self.mostPauses).map(JSONValue.string))),
                JSONMember("redis_fault", .optional(reading.fault)), JSONMember("settings", .string(options.file)),
                JSONMember("process", process),
            ] + apps + [JSONMember("history", past)] + (reading.fault == nil ? Self.fromRedis(reading.lists.map(list)) : []))
    }

    // MARK: This process

    private var process: JSONValue {
        let snapshot = notice?.snapshot
        let counters = snapshot?.counters ?? Counters()
        return .members([
            "version": .string(gaplessdVersion), "started": .figure(system.started),
            "resident_bytes": .integer(system.residentBytes), "processor_seconds": .figure(system.processorSeconds),
            "log_lines_dropped": .integer(system.droppedLines), "draining": .bool(snapshot?.isLeaving ?? false),
            "in_flight": .integer(snapshot?.inFlight ?? 0),
            "counters": .object(counters.all.map { JSONMember($0.rawValue, .integer($1)) }),
        ])
    }

    /// The apps that the view shows, the number of those that the filter selects, and the numbers of all. Null before the first
    /// notice.
    private var apps: [JSONMember] {
        guard let all = notice?.snapshot.apps else {
            return ["apps", "apps_selected", "app_counts"].map { JSONMember($0, .null) }
        }
        let wanted = appFilter.lowercased()
        let apps = wanted.isEmpty ? all : all.filter { $0.label.lowercased().contains(wanted) }
        let ranks = apps.map { $0.rank(backlog: backlog(of: $0) ?? 0) }
        let latencies = history.recent
        let shown = AppOverview(ranks, most: AppOverview.mostOnPage).shown.map { index in
            let app = apps[index]
            return JSONValue.object(
                app.members(latencies[app.label] ?? LatencyHistogram(), bottleneck: app.bottleneck) + [
                    JSONMember("in_flight", .integer(app.held)),
                    JSONMember("backlog", backlog(of: app).map { .integer($0) } ?? .null),
                    JSONMember("round_trip", .figure(app.figures.roundTrip.map { $0 / .seconds(1) })),
                    JSONMember("certificate_expires", app.certificateExpires.map { .integer($0) } ?? .null),
                    JSONMember("token_age", .figure(app.tokenAge.map { $0 / .seconds(1) })),
                ])
        }
        let counts = AppOverview(all.map { $0.rank() }, most: 0)
        return [
            JSONMember("apps", .array(shown)), JSONMember("apps_selected", .integer(apps.count)),
            JSONMember("app_counts", counts.object),
        ]
    }

    /// The jobs of an app in the side lists of all lists.
    private func backlog(of app: ProcessSnapshot.App) -> Int? {
        reading.fault == nil ? reading.lists.reduce(0) { $0 &+ $1.status.asides[app.name ?? "", default: 0] } : nil
    }

    private var past: JSONValue {
        func series(_ values: History.Series) -> JSONValue { .array(values.map { .figure(Double($0)) }) }
        return .members([
            "interval": .figure(History.interval / .seconds(1)), "points": .integer(History.most),
            "lists": .array(
                history.lists.map { list in
                    .members([
                        "list": .string(list.name), "sent_per_second": series(list.sent), "backlog": series(list.backlog),
                        "age": series(list.age),
                    ])
                }),
            "p50": series(history.median), "p99": series(history.slowest),
            "responses": .array(
                history.responses.map { kind, values in
                    .members([
                        "status": .string(kind.status), "reason": .string(kind.reason), "per_second": series(values),
                    ])
                }),
            "other_responses": series(history.others),
        ])
    }

    // MARK: From Redis

    private func list(_ list: RedisReading.List) -> List {
        let latest = (list.letters?.latest ?? []).map { letter in
            let identifier = letter.identifier.map { (try? JSONValue.parse(Array($0.utf8))) ?? .string($0) }
            return JSONValue.members([
                "at": letter.at.map { .integer($0) } ?? .null, "status": letter.status.map { .integer($0) } ?? .null,
                "reason": .optional(letter.reason), "identifier": identifier ?? .null,
                "token": .optional(letter.token.map(Redaction(isOn: options.redacts).token)),
            ])
        }
        var (status, reasons) = (list.status, list.letters?.reasons ?? [])
        if status.workers.count > Self.mostWorkers {
            status.workers = Array(status.workers.sorted { $0.inFlight > $1.inFlight }.prefix(Self.mostWorkers))
        }
        if reasons.count > Self.mostReasons {
            let others = reasons[Self.mostReasons...].reduce(0) { $0 + $1.count }
            reasons = reasons.prefix(Self.mostReasons) + [("(others)", others)]
        }
        return List(
            name: list.name, status: status, living: list.status.living, reasons: reasons,
            mostApps: max(1, Self.mostReportedApps / max(1, status.workers.count)),
            more: [
                JSONMember("sent_per_second", .figure(list.sentPerSecond)),
                JSONMember("age", .figure(list.age.map { $0 / .seconds(1) })), JSONMember("drain", .figure(list.drain)),
                JSONMember("dead_latest", .array(latest)),
            ])
    }

    /// One list for `status --json` and for the document.
    struct List {
        /// Jobs per second of a worker between two readings.
        struct Rate {
            var claimed: Double
            var sent: Double
            var interval: Duration
        }

        var name: String
        var status: QueueStatus
        /// Workers whose beats arrive, if `status` has only some workers.
        var living: Int?
        /// Reasons of the newest dead letters with their numbers, most frequent first.
        var reasons: [(reason: String, count: Int)]
        /// The names of the apps in the settings; `nil` without them.
        var apps: Set<String>?
        /// By the name of the worker.
        var rates: [String: Rate] = [:]
        /// Apps of each worker.
        var mostApps = Int.max
        /// Members that only the daemon knows.
        var more: [JSONMember] = []

        fileprivate var pauses: [JSONValue] {
            status.pauses.prefix(StatusDocument.mostPauses).map { PauseNote($0).object(list: name) }
        }

        /// The apps with jobs in side lists, the most first.
        var asides: [(app: String, jobs: Int)] {
            status.asides.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
                .map { ($0.key.isEmpty ? PauseNote.topLevel : $0.key, $0.value) }
        }

        /// Whether the jobs of this side list wait for an app that the settings do not have.
        func isRemoved(aside name: String) -> Bool {
            guard let apps, case .app = QueuePause.Scope(field: name), name != Keys.sweptName else { return false }
            return !apps.contains(name)
        }

        private func object(aside name: String, jobs: Int) -> JSONValue {
            let reason = isRemoved(aside: name) ? [JSONMember("reason", .string("removed"))] : []
            return .object([JSONMember("app", .string(name)), JSONMember("jobs", .integer(jobs))] + reason)
        }

        fileprivate var campaigns: [JSONValue] {
            status.campaigns.map { CampaignReport($0, list: name, status.pauses).object }
        }

        fileprivate var object: JSONValue {
            .object(
                [JSONMember("list", .string(name))] + StatusDocument.sums([self]) + [
                    JSONMember("paused", .array(pauses)), JSONMember("campaigns", .array(campaigns)),
                    JSONMember("dead_reasons", .object(reasons.map { JSONMember($0.reason, .integer($0.count)) })),
                    JSONMember("live_workers", .array(status.workers.map { object($0, rates[$0.name]) })),
                    JSONMember("aside_apps", .integer(status.asides.count)),
                    JSONMember(
                        "asides",
                        .array(asides.prefix(StatusDocument.mostAsides).map { object(aside: $0.app, jobs: $0.jobs) })),
                ] + more)
        }

        private func object(_ worker: QueueStatus.Worker, _ rate: Rate?) -> JSONValue {
            let number = { (name: String) in worker.details[name].flatMap { Int64($0) }.map { JSONValue.integer($0) } ?? .null }
            return .members([
                "name": .string(worker.name), "host": .optional(worker.details["host"]), "pid": number("pid"),
                "version": .optional(worker.details["version"]), "started": number("started"),
                "in_flight": .integer(worker.inFlight),
                "claimed": .integer(worker.count("claimed")), "sent": .integer(worker.count("sent")),
                "claimed_per_second": rate.map { .rounded($0.claimed) } ?? .null,
                "sent_per_second": rate.map { .rounded($0.sent) } ?? .null,
                "interval": rate.map { .rounded($0.interval / .seconds(1)) } ?? .null,
                "silent": worker.silence.map { .rounded($0 / .seconds(1)) } ?? .null,
                "apps": ReportedApp.record(of: worker).map { .array(Array($0.prefix(mostApps))) } ?? .null,
                "app_counts": ReportedApp.counts(of: worker) ?? .null,
            ])
        }
    }

    /// The sums over all lists, all pauses, and each list.
    static func fromRedis(_ lists: [List]) -> [JSONMember] {
        sums(lists) + [
            JSONMember("paused", .array(lists.flatMap(\.pauses))), JSONMember("campaigns", .array(lists.flatMap(\.campaigns))),
            JSONMember("lists", .array(lists.map(\.object))),
        ]
    }

    private static func sums(_ lists: [List]) -> [JSONMember] {
        let all = lists.map(\.status)
        // Wrapping, because a server may reply with any number.
        func sum(_ name: String, _ value: (QueueStatus) -> Int) -> JSONMember {
            JSONMember(name, .integer(all.reduce(0) { $0 &+ value($1) }))
        }
        let counters = Counter.allCases.map { counter in
            JSONMember(counter.rawValue, .integer(all.reduce(Int64(0)) { $0 &+ $1.counters[counter, default: 0] }))
        }
        return [
            sum("backlog", \.backlog), sum("in_flight", \.inFlight), sum("delayed", \.delayed), sum("recovered", \.recovered),
            sum("dead", \.dead), sum("feedback", \.feedback),
            JSONMember("workers", .integer(lists.reduce(0) { $0 + ($1.living ?? $1.status.living) })),
            JSONMember("counters", .object(counters)), sum("cancelled", \.cancelled),
            sum("live_states", \.states),
            JSONMember("live_state_age_seconds", .figure(all.map { $0.stateAge / .seconds(1) }.max() ?? 0)),
            sum("paced", \.paced),
        ]
    }
}

extension ProcessSnapshot.App {
    /// The app in the worker's record in Redis and in the document.
    func members(_ latencies: LatencyHistogram, bottleneck: Bottleneck) -> [JSONMember] {
        [
            JSONMember("app", .string(label)), JSONMember("bottleneck", .string(bottleneck.rawValue)),
            JSONMember("held", .optional(hold?.kind)), JSONMember("reason", .optional(hold?.wholeSentence)),
            JSONMember("paused", .bool(isPaused)), JSONMember("sessions", .integer(sessions)),
            JSONMember("streams", .integer(streams)), JSONMember("capacity", .integer(capacity)),
            JSONMember("p50", .figure(latencies.quantile(0.5))), JSONMember("p99", .figure(latencies.quantile(0.99))),
        ]
    }
}

/// The state of one app, as a worker reports it in Redis.
struct ReportedApp {
    var label: String
    /// A value of `Bottleneck`.
    var bottleneck: String
    /// The kind of the hold, and its sentence.
    var hold: (kind: String, reason: String)?
    var isPaused: Bool
    var sessions: Int64
    var streams: Int64
    var capacity: Int64
    /// Seconds from the claim to the response.
    var median: Double?
    var slowest: Double?

    /// The apps of the record; `nil` if the worker has not reported yet, or is of an older version.
    static func record(of worker: QueueStatus.Worker) -> [JSONValue]? {
        if case .array(let apps) = parsed(WorkerRecord.apps, of: worker) { apps } else { nil }
    }

    /// The numbers of all apps, as `AppOverview.object`; `nil` as for `record`, and for a worker of 0.2.
    static func counts(of worker: QueueStatus.Worker) -> JSONValue? {
        guard let value = parsed(WorkerRecord.appCounts, of: worker), case .object = value else { return nil }
        return value
    }

    private static func parsed(_ field: String, of worker: QueueStatus.Worker) -> JSONValue? {
        worker.details[field].flatMap { try? JSONValue.parse(Array($0.utf8)) }
    }

    /// The number of apps of a worker.
    static func total(of worker: QueueStatus.Worker) -> Int {
        let counted = counts(of: worker)?["total"]?.integerValue ?? 0
        return max(record(of: worker)?.count ?? 0, min(Int(clamping: counted), 1_000_000))
    }

    /// `5,000 apps: 3 held, 1 paused, 40 limited`.
    static func sentence(_ counts: JSONValue?) -> String {
        let number = { (key: String) in counts?[key]?.integerValue ?? 0 }
        let names = [("held", "held"), ("paused", "paused"), ("no_session", "without a session"), ("limited", "limited")]
        let parts = names.filter { number($0.0) > 0 }.map { "\(number($0.0).grouped) \($0.1)" }
        return "\(number("total").grouped) apps: \(parts.isEmpty ? "no problem" : parts.joined(separator: ", "))"
    }

    static func all(of worker: QueueStatus.Worker) -> [ReportedApp] {
        (record(of: worker) ?? []).map { app in
            ReportedApp(
                label: app["app"]?.stringValue ?? "unknown", bottleneck: app["bottleneck"]?.stringValue ?? "unknown",
                hold: app["held"]?.stringValue.map { ($0, app["reason"]?.stringValue ?? "") },
                isPaused: app["paused"]?.boolValue ?? false, sessions: app["sessions"]?.integerValue ?? 0,
                streams: app["streams"]?.integerValue ?? 0, capacity: app["capacity"]?.integerValue ?? 0,
                median: app["p50"]?.doubleValue, slowest: app["p99"]?.doubleValue)
        }
    }

    var rank: AppRank {
        let isQuiet = Bottleneck(rawValue: bottleneck)?.isQuiet ?? true
        return AppRank(
            hold != nil ? .held : isPaused ? .paused : capacity == 0 ? .noSession : isQuiet ? .none : .limited,
            load: Int(clamping: streams))
    }

    /// One word or two.
    var state: String {
        if let hold { return "held: \(hold.kind.replacing("_", with: " "))" }
        return isPaused ? "paused" : capacity > 0 ? "open" : "no session"
    }

    /// The limit of the app, for `status`; `nil` if nothing limits it.
    var remark: String? {
        if let hold { return "app \(label) is held: \(hold.reason)" }
        return bottleneck == Bottleneck.none.rawValue
            ? nil : "app \(label) is limited by: \(bottleneck.replacing("_", with: " "))"
    }
}

extension QueueStatus.Worker {
    /// A counter of this worker.
    func count(_ name: String) -> Int64 { details[name].flatMap { Int64($0) } ?? 0 }
}

extension JSONValue {
    /// A number with at most four decimal places; null for an unknown value.
    fileprivate static func figure(_ value: Double?) -> JSONValue {
        let rounded = value.map { ($0 * 10_000).rounded() / 10_000 }
        return rounded.flatMap { $0.isFinite ? .number("\($0)") : nil } ?? .null
    }
}
