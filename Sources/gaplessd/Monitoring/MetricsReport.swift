import Platform
import PushPool
import RedisQueue

/// The text of `/metrics`, in the order of docs/metrics.md: the figures of each list from Redis, then those of this process.
struct MetricsReport {
    private var metrics = PrometheusText()
    private var apps = AppLabels.Choice(shown: [], others: [], otherTotals: .init())

    /// - Parameters:
    ///   - notice: the dispatcher's latest; `nil` before its first.
    ///   - labels: chooses the apps with a label of their own.
    ///   - now: the base of all ages; the notice may be a second old.
    init(
        _ reading: RedisReading, _ notice: ProcessBoard.Notice?, _ system: SystemFacts, _ labels: inout AppLabels, now: Instant,
        wallClock: WallClock
    ) {
        if let notice { apps = labels.choose(among: notice.snapshot.apps) }
        addQueues(reading)
        addBacklogs(reading)
        metrics.add(
            "gapless_redis_up", .gauge, "Whether Redis returned the figures of the lists for this scrape.",
            [.init(reading.fault == nil ? 1 : 0)])
        if let notice {
            addConnections(notice, now, wallClock)
            addWorker(notice.snapshot)
            addApps()
            addResponses()
            metrics.add(
                "gapless_dispatcher_idle_seconds", .gauge,
                "Seconds since the main loop last reported; above 10 means stalled.",
                [.init(seconds: (now - notice.at) / .seconds(1))])
            metrics.add(
                "gapless_dispatcher_turn_max_seconds", .gauge, "Longest turn of the main loop since the start of this process.",
                [.init(seconds: notice.snapshot.longestTurn / .seconds(1))])
        }
        addProcess(system)
    }

    var text: String { metrics.text }

    // MARK: From Redis

    private mutating func addQueues(_ reading: RedisReading) {
        let gauges: [(String, String, (QueueStatus) -> Int)] = [
            ("backlog", "Jobs waiting in the list, its side lists and the slots of scopes.", \.backlog),
            ("in_flight", "Jobs that workers have claimed and not settled.", \.inFlight),
            ("delayed", "Retries and not_before jobs that are not due yet.", \.delayed),
            ("recovered", "Jobs of dead workers that wait for a new claim.", \.recovered),
            ("dead", "Dead letters.", \.dead),
            ("feedback", "Entries of the feedback list.", \.feedback),
            ("workers", "Live workers.", \.living),
            ("live_states", "Newest states of scopes (replaces) that wait.", \.states),
            ("paced", "Channels and tokens with a pause between two updates.", \.paced),
        ]
        for (name, help, value) in gauges {
            metrics.add("gapless_\(name)", .gauge, help, reading.lists.map { .init(value($0.status), ("queue", $0.name)) })
        }
        metrics.add(
            "gapless_queue_age_seconds", .gauge,
            "Time since the push of the job that is claimed next; absent while it is unknown.",
            reading.lists.compactMap { list in list.age.map { .init(seconds: $0 / .seconds(1), ("queue", list.name)) } })
        metrics.add(
            "gapless_live_state_age_seconds", .gauge, "Time for which the oldest newest state of a scope waits; 0 without one.",
            reading.lists.map { .init(seconds: $0.status.stateAge / .seconds(1), ("queue", $0.name)) })
        metrics.add(
            "gapless_drain_seconds", .gauge,
            "Time until the list is empty at the rate of the last ten seconds; absent while nothing leaves it.",
            reading.lists.compactMap { list in list.drain.map { .init(seconds: $0, ("queue", list.name)) } })
        metrics.add(
            "gapless_paused", .gauge, "Whether an operator has paused the whole list.",
            reading.lists.map { .init($0.status.pauses.contains(where: \.isOfList) ? 1 : 0, ("queue", $0.name)) })
        let figures: [(String, String, (CampaignStatus) -> Int)] = [
            ("audience", "Tokens that were handed over to the campaign.", \.audience),
            ("sent", "Pushes of the campaign that APNs accepted.", \.sent),
            ("dead", "Dead letters of the campaign, expired ones included.", { $0.dead &+ $0.expired }),
            ("remaining", "Tokens of the campaign without a final outcome.", \.remaining),
        ]
        for (name, help, value) in figures {
            metrics.add(
                "gapless_campaign_\(name)", .gauge, help,
                reading.lists.flatMap { list in
                    list.status.campaigns.map { .init(value($0), ("queue", list.name), ("campaign", $0.id)) }
                })
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
            "gapless_redis_last_contact_timestamp_seconds", .gauge,
            "When Redis last confirmed this worker's lease, in Unix seconds.",
            lists.compactMap { list in
                let since = list.sinceContact.map { ($0 + (now - notice.at)) / .seconds(1) }
                return since.map { .init(seconds: wallClock.seconds - $0, ("queue", list.name)) }
            })
    }

    private mutating func addWorker(_ snapshot: ProcessSnapshot) {
        metrics.add(
            "gapless_worker_in_flight", .gauge, "Jobs that this process has claimed and not settled.", [.init(snapshot.inFlight)])
        metrics.add("gapless_worker_draining", .gauge, "Whether this process is draining.", [.init(snapshot.isLeaving ? 1 : 0)])
        for (counter, count) in snapshot.counters.all {
            let name = counter.rawValue
            metrics.add(
                "gapless_worker_\(name)_total", .counter, "Same as gapless_\(name)_total, but of this process since its start.",
                [.init(count)])
        }
    }

    /// A gauge of each app with a label; `other` has the sum of the rest.
    private mutating func add(_ name: String, _ help: String, _ value: (ProcessSnapshot.App) -> Int) {
        add(name, .gauge, help, { .init(value($0), $1) }, rest: { .init($0.reduce(0) { $0 &+ value($1) }, $1) })
    }

    /// - Parameters:
    ///   - value: of one app under its label; `nil` if it is unknown.
    ///   - rest: of all apps without a label.
    private mutating func add(
        _ name: String, _ kind: PrometheusText.Kind, _ help: String,
        _ value: (ProcessSnapshot.App, (String, String)) -> PrometheusText.Sample?,
        rest: ([ProcessSnapshot.App], (String, String)) -> PrometheusText.Sample? = { _, _ in nil }
    ) {
        var samples = apps.shown.compactMap { value($0, ("app", $0.label)) }
        if !apps.others.isEmpty, let sample = rest(apps.others, ("app", AppLabels.other)) { samples.append(sample) }
        metrics.add(name, kind, help, samples)
    }

    /// A gauge for each app and each value of a second label: 1 if it applies, and for `other` the number of apps.
    private mutating func add(
        _ name: String, _ help: String, _ label: String, _ values: [String], _ applies: (ProcessSnapshot.App, String) -> Bool
    ) {
        var samples = apps.shown.flatMap { app in
            values.map { PrometheusText.Sample(applies(app, $0) ? 1 : 0, ("app", app.label), (label, $0)) }
        }
        if !apps.others.isEmpty {
            samples += values.map { value in
                .init(apps.others.count { applies($0, value) }, ("app", AppLabels.other), (label, value))
            }
        }
        metrics.add(name, .gauge, help, samples)
    }

    /// The totals of each app with a label, and those of `other`.
    private var totals: [(label: String, totals: AppLabels.Totals)] {
        apps.shown.map { ($0.label, AppLabels.Totals($0)) }
            + (apps.others.isEmpty ? [] : [(AppLabels.other, apps.otherTotals)])
    }

    /// Only an app among others has side lists.
    private mutating func addBacklogs(_ reading: RedisReading) {
        if apps.shown.count + apps.others.count < 2 { return }
        var samples: [PrometheusText.Sample] = []
        for list in reading.lists {
            var rest = list.status.asides
            for app in apps.shown {
                let jobs = rest.removeValue(forKey: app.name ?? "") ?? 0
                samples.append(.init(jobs, ("queue", list.name), ("app", app.label)))
            }
            if !apps.others.isEmpty {
                let jobs = rest.values.reduce(0) { $0 &+ $1 }
                samples.append(.init(jobs, ("queue", list.name), ("app", AppLabels.other)))
            }
        }
        metrics.add("gapless_app_backlog", .gauge, "Jobs that wait in the side list of the app.", samples)
    }

    private mutating func addApps() {
        add("gapless_sessions_open", "Open HTTP/2 sessions to APNs.", \.sessions)
        add("gapless_streams_capacity", "Streams that all open sessions together allow.", \.capacity)
        add("gapless_streams_in_use", "Pushes on the wire.", \.streams)
        add("gapless_app_in_flight", "Jobs that this process holds for the app.", \.held)
        add("gapless_app_held", "Whether the app is held, by reason.", "reason", HoldReason.kinds) { $0.hold?.kind == $1 }
        add("gapless_app_paused", "Whether an operator has paused the app or its list.") { $0.isPaused ? 1 : 0 }
        addPools()
        // Of the apps without a label, the first that expires.
        add(
            "gapless_certificate_expiry_timestamp_seconds", .gauge, "When the app's certificate expires, in Unix seconds.",
            { app, label in app.certificateExpires.map { .init($0, label) } },
            rest: { apps, label in apps.compactMap(\.certificateExpires).min().map { .init($0, label) } })
        add(
            "gapless_provider_token_age_seconds", .gauge,
            "Age of the app's provider token; the first push after 50 minutes renews it.",
            { app, label in app.tokenAge.map { .init(seconds: $0 / .seconds(1), label) } })
    }

    private mutating func addPools() {
        func add(_ name: String, _ help: String, _ value: (PoolFigures) -> Duration?) {
            self.add(name, .gauge, help, { app, label in value(app.figures).map { .init(seconds: $0 / .seconds(1), label) } })
        }
        add("gapless_round_trip_seconds", "Smoothed round trip to APNs, from PINGs.") { $0.roundTrip }
        add("gapless_round_trip_min_seconds", "Shortest round trip to APNs of the open sessions.") { $0.shortestRoundTrip }
        self.add("gapless_bytes_in_flight", "Bytes of payload that APNs has not confirmed by WINDOW_UPDATE.") {
            $0.figures.bytesInFlight
        }
        metrics.add(
            "gapless_blocked_seconds_total", .counter, "Seconds for which pushes waited although sessions were open, by cause.",
            totals.flatMap { app in
                zip(Limitation.allCases, app.totals.blocked).map { limit, time in
                    .init(seconds: time / .seconds(1), ("app", app.label), ("by", limit.label))
                }
            })
        self.add(
            "gapless_app_bottleneck", "Reason why the app does not send more: 1 for one cause, otherwise 0.", "bottleneck",
            Bottleneck.allCases.map(\.rawValue)
        ) { $0.bottleneck.rawValue == $1 }
    }

    private mutating func addResponses() {
        metrics.add(
            "gapless_responses_total", .counter,
            "Outcomes of requests to APNs by status and reason; status none means no response.",
            totals.flatMap { app in
                app.totals.responses.kinds.map {
                    .init($0.count, ("app", app.label), ("status", $0.kind.status), ("reason", $0.kind.reason))
                }
            })
        let latencies: [(String, String, (ResponseFigures) -> LatencyHistogram)] = [
            ("claim_to_wire", "Time from the claim of a job to the moment when its request left for the wire.", \.toWire),
            ("wire_to_response", "Time from the moment when a request left for the wire to the response of APNs.", \.toResponse),
            ("claim_to_response", "Time from the claim of a job to the response of APNs.", \.total),
        ]
        for (name, help, histogram) in latencies {
            metrics.add(
                "gapless_\(name)_seconds", .histogram, help,
                totals.flatMap { PrometheusText.Sample.histogram(histogram($0.totals.responses), ("app", $0.label)) })
        }
    }

    private mutating func addProcess(_ system: SystemFacts) {
        metrics.add(
            "gapless_log_lines_dropped_total", .counter, "Log lines that could not be written.", [.init(system.droppedLines)])
        metrics.add("gapless_build_info", .gauge, "Always 1; the version is its label.", [.init(1, ("version", gaplessdVersion))])
        metrics.add(
            "process_start_time_seconds", .gauge, "When this process started, in Unix seconds.",
            [.init(seconds: system.started)])
        metrics.add("process_resident_memory_bytes", .gauge, "Resident memory.", [.init(system.residentBytes)])
        metrics.add(
            "process_cpu_seconds_total", .counter, "Processor time used, user and system.",
            [.init(seconds: system.processorSeconds)])
    }
}

extension Limitation {
    fileprivate var label: String {
        switch self {
        case .streams: "streams"
        case .window: "window"
        case .socket: "socket"
        case .rateLimit: "rate_limit"
        }
    }
}

extension HoldReason {
    static let kinds = ["credential", "topic", "suspect_tokens", "token_updates", "throttled", "failing", "rule", "removed"]

    /// One word of `kinds`.
    var kind: String {
        switch self {
        case .credential, .unusable, .untrusted: "credential"
        case .topic: "topic"
        case .suspectTokens: "suspect_tokens"
        case .tokenUpdates: "token_updates"
        case .throttled: "throttled"
        case .failing: "failing"
        case .removed: "removed"
        case .rule: "rule"
        }
    }
}

/// Metrics in Prometheus' text format 0.0.4 ("Exposition formats", prometheus.io/docs).
struct PrometheusText {
    static let contentType = "text/plain; version=0.0.4; charset=utf-8"

    enum Kind: String { case gauge, counter, histogram }

    struct Sample {
        /// The end of the name: `_bucket` and others of a histogram.
        var suffix = ""
        var labels: [(name: String, value: String)]
        var value: String

        init(_ value: some BinaryInteger, _ labels: (String, String)...) {
            self.value = "\(value)"
            self.labels = labels
        }

        /// Seconds, rounded to the millisecond.
        init(seconds: Double, _ labels: (String, String)...) {
            value = "\((seconds * 1000).rounded() / 1000)"
            self.labels = labels
        }

        /// The samples of a histogram, whose buckets include those below them.
        static func histogram(_ histogram: LatencyHistogram, _ labels: (String, String)...) -> [Sample] {
            func sample(_ suffix: String, _ value: String, _ bound: String? = nil) -> Sample {
                var sample = Sample(0)
                sample.suffix = suffix
                sample.labels = labels.map { (name: $0.0, value: $0.1) } + (bound.map { [(name: "le", value: $0)] } ?? [])
                sample.value = value
                return sample
            }
            var count = 0
            var samples: [Sample] = []
            for (index, bound) in (LatencyHistogram.bounds.map { "\($0)" } + ["+Inf"]).enumerated() {
                count += histogram.counts[index]
                samples.append(sample("_bucket", "\(count)", bound))
            }
            return samples + [sample("_sum", "\(histogram.sum)"), sample("_count", "\(count)")]
        }
    }

    private(set) var text = ""

    /// Adds a metric with all its samples. A metric without samples is left out.
    mutating func add(_ name: String, _ kind: Kind, _ help: String, _ samples: [Sample]) {
        if samples.isEmpty { return }
        text += "# HELP \(name) \(Self.escape(help, quotes: false))\n# TYPE \(name) \(kind.rawValue)\n"
        for sample in samples {
            let labels = sample.labels.map { "\($0.name)=\"\(Self.escape($0.value, quotes: true))\"" }.joined(separator: ",")
            text += name + sample.suffix + (labels.isEmpty ? " \(sample.value)\n" : "{\(labels)} \(sample.value)\n")
        }
    }

    /// Escapes backslash and line break, and the quote in a label's value.
    private static func escape(_ text: String, quotes: Bool) -> String {
        guard text.utf8.contains(where: { $0 == 0x5C || $0 == 0x0A || $0 == 0x22 }) else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
