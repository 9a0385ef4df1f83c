import JSONBytes
import Platform
import PushPool
import RedisQueue

/// Publishes the state of this process: on the board of the metrics server, and as the worker's record in Redis.
struct SnapshotPublisher {
    private let metrics: MetricsEndpoint
    let records: WorkerRecords
    private var notices = NoticeSchedule()
    private var bottlenecks = BottleneckMeter()
    private var nextRecord = Instant.now

    init(_ metrics: MetricsEndpoint, _ records: WorkerRecords) { (self.metrics, self.records) = (metrics, records) }

    var deadline: Instant? { notices.deadline(isWatched: metrics.isOpen) }

    /// Whether a snapshot is wanted in this turn.
    mutating func isDue(now: Instant) -> Bool { notices.turned(now: now, isWatched: metrics.isOpen) }

    /// - Parameter figures: of the apps with pools or jobs.
    mutating func publish(
        _ snapshot: consuming ProcessSnapshot, _ figures: [(app: Int, pool: PoolFigures)], now: Instant
    ) {
        bottlenecks.add(figures, to: &snapshot, now: now)
        // Of removed apps, those count whose jobs wait.
        snapshot.apps.removeAll { $0.isRemoved && !$0.hasAside && $0.held == 0 }
        metrics.board.publish(snapshot, at: now)
        guard nextRecord <= now else { return }
        nextRecord = now + NoticeSchedule.most
        records.publish(snapshot.apps, at: now)
    }
}

/// Decides when the dispatcher publishes its snapshot: with `metrics_listen` at once, but at most ten times a second and at least
/// once a second; otherwise at most once a second, and only after a turn.
struct NoticeSchedule: Equatable {
    static let least = Duration.milliseconds(100)
    static let most = Duration.seconds(1)

    private var last: Instant?
    private var hasMore = false

    /// Records a turn of the dispatcher. Returns whether to publish now.
    ///
    /// - Parameter isWatched: whether `metrics_listen` is set.
    mutating func turned(now: Instant, isWatched: Bool) -> Bool {
        if let last, now - last < (isWatched ? Self.least : Self.most) {
            hasMore = true
            return false
        }
        last = now
        hasMore = false
        return true
    }

    /// The next turn that is needed only to publish.
    func deadline(isWatched: Bool) -> Instant? {
        if isWatched { return last.map { $0 + (hasMore ? Self.least : Self.most) } }
        return hasMore ? last.map { $0 + Self.most } : nil
    }
}

/// Decides when the state of the apps is written to the worker's record in Redis: within a second of a change of what an
/// operator acts on, and every ten seconds while only figures change.
///
/// Of more apps than `AppOverview.mostReported`, the record has those with problems, the busiest, and the numbers of all.
struct WorkerState {
    /// The facts on which an operator acts.
    private struct Essence: Equatable {
        var bottleneck: Bottleneck
        var hold: String?
        var isPaused: Bool
        var sessions: Int

        init(_ app: ProcessSnapshot.App) {
            bottleneck = app.bottleneck.isQuiet ? .none : app.bottleneck
            (hold, isPaused, sessions) = (app.hold?.kind, app.isPaused, app.sessions)
        }
    }

    /// With many apps, the busiest change all the time: only those with problems are essential.
    private struct Essences: Equatable {
        var apps: [String: Essence]
        var overview: [Int]
    }

    static let interval = Duration.seconds(10)

    private var written: (essence: Essences, record: WorkerRecord.Fields, at: Instant)?
    /// By name of the app: apps come and go.
    private var before: [String?: LatencyHistogram] = [:]
    private var latencies: [String?: LatencyHistogram] = [:]
    private var nextLatencies: Instant?

    /// Returns the record to write; `nil` if the last one is recent enough.
    mutating func record(of apps: [ProcessSnapshot.App], now: Instant) -> WorkerRecord.Fields? {
        measure(apps, now: now)
        let overview = AppOverview(apps.map { $0.rank() }, most: AppOverview.mostReported)
        let shown = overview.hidden == 0 ? Array(apps.indices) : overview.shown
        let essential = shown.filter { overview.hidden == 0 || apps[$0].concern > .limited }
        let essence = Essences(
            apps: Dictionary(essential.map { (apps[$0].label, Essence(apps[$0])) }) { first, _ in first },
            overview: AppRank.Concern.allCases.filter { $0 > .limited }.map(overview.count))
        if let written, written.essence == essence, now - written.at < Self.interval { return nil }
        let members = shown.map { index in
            let bottleneck = apps[index].bottleneck
            let latency = latencies[apps[index].name] ?? LatencyHistogram()
            return JSONValue.object(apps[index].members(latency, bottleneck: bottleneck.isQuiet ? .none : bottleneck))
        }
        let record = WorkerRecord.Fields(apps: JSONValue.array(members).bytes, counts: overview.object.bytes)
        if let written, written.record == record { return nil }
        written = (essence, record, now)
        return record
    }

    /// The latencies are those of the last ten seconds.
    private mutating func measure(_ apps: [ProcessSnapshot.App], now: Instant) {
        if let next = nextLatencies, next > now { return }
        let current = Dictionary(apps.map { ($0.name, $0.responses.total) }) { first, _ in first }
        latencies = [:]
        for (app, total) in current { latencies[app] = before[app].map(total.since) ?? LatencyHistogram() }
        (before, nextLatencies) = (current, now + Self.interval)
    }
}
