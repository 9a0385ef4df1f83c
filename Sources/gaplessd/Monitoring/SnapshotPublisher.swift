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
    private var state = WorkerState()
    private var nextState = Instant.now
    /// The least time between two records of an acceptance of the same app.
    private static let acceptanceInterval = Duration.seconds(60)
    /// The acceptances that were handed over last, by fingerprint, and the apps in doubt at that time.
    private var recorded: [String: Instant] = [:]
    private var inDoubt: [String] = []
    private let started = Instant.now

    init(_ metrics: MetricsEndpoint, _ records: WorkerRecords) { (self.metrics, self.records) = (metrics, records) }

    var deadline: Instant? { notices.deadline(isWatched: metrics.isOpen) }

    /// Whether a snapshot is wanted in this turn.
    mutating func isDue(now: Instant) -> Bool { notices.turned(now: now, isWatched: metrics.isOpen) }

    /// - Parameter figures: of the pools of all apps, in their order.
    mutating func publish(_ snapshot: consuming ProcessSnapshot, _ figures: [PoolFigures], now: Instant) {
        bottlenecks.add(figures, to: &snapshot, now: now)
        // Of removed apps, those count whose jobs wait.
        snapshot.apps.removeAll { $0.isRemoved && !$0.hasAside && $0.held == 0 }
        metrics.board.publish(snapshot, at: now)
        guard nextState <= now else { return }
        nextState = now + NoticeSchedule.most
        let record = state.record(of: snapshot.apps, now: now)
        let accepted = newAcceptances(snapshot.apps)
        // Apps without jobs need no acceptance.
        let doubts = snapshot.apps.filter { !$0.isIdle && !$0.isRemoved && !$0.isKnown(now: now) }.map(\.fingerprint)
        if record == nil && accepted.isEmpty && doubts == inDoubt { return }
        inDoubt = doubts
        records.publish(record, accepted: accepted, wanted: doubts)
    }

    /// Those of this process, at most once a minute for each app.
    private mutating func newAcceptances(_ apps: [ProcessSnapshot.App]) -> [String: Instant] {
        var accepted: [String: Instant] = [:]
        for app in apps {
            guard let time = app.acceptedAt, time >= started else { continue }
            if let last = recorded[app.fingerprint], time - last < Self.acceptanceInterval { continue }
            (recorded[app.fingerprint], accepted[app.fingerprint]) = (time, time)
        }
        if recorded.count > 2 * apps.count {
            recorded = recorded.filter { entry in apps.contains { $0.fingerprint == entry.key } }
        }
        return accepted
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
        let essence = Essences(
            apps: essences(of: shown.filter { overview.hidden == 0 || apps[$0].concern > .limited }, apps),
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

    private func essences(of shown: [Int], _ apps: [ProcessSnapshot.App]) -> [String: Essence] {
        let all = shown.map { index in
            let app = apps[index]
            return (
                app.label,
                Essence(
                    bottleneck: app.bottleneck.isQuiet ? .none : app.bottleneck, hold: app.hold?.kind, isPaused: app.isPaused,
                    sessions: app.sessions)
            )
        }
        return Dictionary(all) { first, _ in first }
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
