import Clocks
import RedisQueue

/// What `/metrics` says, in docs/metrics.md's order: what Redis knows of each list, then what this process knows of itself.
struct MetricsReport {
    private var metrics = PrometheusText()

    /// - Parameters:
    ///   - notice: the dispatcher's last; `nil` before its first.
    ///   - now: for what changed since that notice.
    init(
        _ reading: RedisReading, _ notice: ProcessBoard.Notice?, _ system: SystemFacts, droppedLines: Int,
        now: Instant, wallClock: WallClock
    ) {
        addQueues(reading)
        metrics.add(
            "gapless_redis_up", .gauge, "Whether Redis told this scrape of the lists.", [.init(reading.fault == nil ? 1 : 0)])
        if let notice {
            addConnections(notice, now, wallClock)
            addWorker(notice.snapshot)
            addApps(notice.snapshot.apps)
            metrics.add(
                "gapless_dispatcher_idle_seconds", .gauge,
                "Since the daemon's main loop last told of itself; above 10 it is stuck.",
                [.init(seconds: (now - notice.at) / .seconds(1))])
        }
        addProcess(system, droppedLines)
    }

    var text: String { metrics.text }

    // MARK: From Redis

    private mutating func addQueues(_ reading: RedisReading) {
        let gauges: [(String, String, (QueueStatus) -> Int)] = [
            ("backlog", "Jobs that wait in the list.", \.backlog),
            ("in_flight", "Jobs that workers have claimed and not settled.", \.inFlight),
            ("delayed", "Retries and not_before jobs that wait for their time.", \.delayed),
            ("recovered", "Jobs of dead workers on their way back.", \.recovered),
            ("dead", "Dead letters.", \.dead),
            ("feedback", "Entries of the feedback list.", \.feedback),
            ("workers", "Live workers.", { $0.workers.count }),
        ]
        for (name, help, value) in gauges {
            metrics.add("gapless_\(name)", .gauge, help, reading.lists.map { .init(value($0.status), ("queue", $0.name)) })
        }
        for counter in Counter.allCases {
            metrics.add(
                "gapless_\(counter.rawValue)_total", .counter, counter.help,
                reading.lists.map { .init($0.status.counters[counter, default: 0], ("queue", $0.name)) })
        }
    }

    // MARK: From this process

    private mutating func addConnections(_ notice: ProcessBoard.Notice, _ now: Instant, _ wallClock: WallClock) {
        let lists = notice.snapshot.lists
        metrics.add(
            "gapless_redis_connected", .gauge, "Whether this worker's own connections to Redis are up.",
            lists.map { .init($0.isConnected ? 1 : 0, ("queue", $0.name)) })
        metrics.add(
            "gapless_redis_last_contact_timestamp_seconds", .gauge, "When Redis last confirmed that this worker lives.",
            lists.compactMap { list in
                let since = list.sinceContact.map { ($0 + (now - notice.at)) / .seconds(1) }
                return since.map { .init(seconds: wallClock.seconds - $0, ("queue", list.name)) }
            })
    }

    private mutating func addWorker(_ snapshot: ProcessSnapshot) {
        metrics.add("gapless_worker_in_flight", .gauge, "Jobs that this process holds.", [.init(snapshot.inFlight)])
        metrics.add("gapless_worker_draining", .gauge, "Whether this process is stopping.", [.init(snapshot.isLeaving ? 1 : 0)])
        let counters = snapshot.counters
        let totals: [(String, Int)] = [
            ("claimed", counters.claimed), ("sent", counters.sent), ("retried", counters.retried), ("resent", counters.resent),
            ("dead", counters.dead), ("expired", counters.expired), ("released", counters.released),
            ("postponed", counters.postponed),
        ]
        for (name, total) in totals {
            metrics.add(
                "gapless_worker_\(name)_total", .counter, "As gapless_\(name)_total, of this process alone since its start.",
                [.init(total)])
        }
    }

    private mutating func addApps(_ apps: [ProcessSnapshot.App]) {
        func add(_ name: String, _ help: String, _ value: (ProcessSnapshot.App) -> PrometheusText.Sample?) {
            metrics.add(name, .gauge, help, apps.compactMap(value))
        }
        add("gapless_sessions_open", "Open HTTP/2 sessions to APNs.") { .init($0.sessions, ("app", $0.label)) }
        add("gapless_streams_capacity", "Streams that the open sessions can have open in all.") {
            .init($0.capacity, ("app", $0.label))
        }
        add("gapless_streams_in_use", "Pushes on the wire.") { .init($0.streams, ("app", $0.label)) }
        add("gapless_app_in_flight", "Jobs that this process holds for the app.") { .init($0.held, ("app", $0.label)) }
        metrics.add(
            "gapless_app_held", .gauge, "Whether the app's jobs are kept in the queue, by reason.",
            apps.flatMap { app in
                HoldReason.kinds.map { .init(app.hold?.kind == $0 ? 1 : 0, ("app", app.label), ("reason", $0)) }
            })
        add("gapless_certificate_expiry_timestamp_seconds", "When the app's certificate expires.") { app in
            app.certificateExpires.map { .init($0, ("app", app.label)) }
        }
        add(
            "gapless_provider_token_age_seconds",
            "Age of the app's provider token; the next push that finds it 50 minutes old has a new one made."
        ) { app in
            app.tokenAge.map { .init(seconds: $0 / .seconds(1), ("app", app.label)) }
        }
    }

    private mutating func addProcess(_ system: SystemFacts, _ droppedLines: Int) {
        metrics.add("gapless_log_lines_dropped_total", .counter, "Log lines that could not be written.", [.init(droppedLines)])
        metrics.add("gapless_build_info", .gauge, "Always 1; the version is its label.", [.init(1, ("version", gaplessdVersion))])
        metrics.add(
            "process_start_time_seconds", .gauge, "When this process started, in Unix seconds.",
            [.init(seconds: system.started)])
        metrics.add("process_resident_memory_bytes", .gauge, "Memory that is resident.", [.init(system.residentBytes)])
        metrics.add(
            "process_cpu_seconds_total", .counter, "Processor time used, user and system.",
            [.init(seconds: system.processorSeconds)])
    }
}

extension Counter {
    fileprivate var help: String {
        switch self {
        case .claimed: "Jobs claimed from the list; one that comes back is counted again."
        case .sent: "Pushes that APNs accepted."
        case .retried: "Counted retries."
        case .postponed: "Jobs claimed before their not_before."
        case .dead: "Jobs that became dead letters, expired ones not among them."
        case .expired: "Jobs that became dead letters as too late."
        case .released: "Jobs that went back to the list, as they were or cut into one for each device."
        case .recovered: "Jobs taken over from dead workers."
        case .resent: "Resends that used up no retry."
        case .fenced: "Workers that were taken for dead and came back."
        case .maybeDuplicate: "Pushes that APNs may have had twice."
        case .trimmed: "Dead letters dropped for redis_dead_letter_max."
        }
    }
}

extension HoldReason {
    static let kinds = ["credential", "topic", "suspect_tokens", "token_updates", "throttled"]

    /// One word of `kinds`.
    var kind: String {
        switch self {
        case .credential, .untrusted: "credential"
        case .topic: "topic"
        case .suspectTokens: "suspect_tokens"
        case .tokenUpdates: "token_updates"
        case .throttled: "throttled"
        }
    }
}
