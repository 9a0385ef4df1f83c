import Platform
import PushPool

/// Publishes the state of this process: on the board of the metrics server, and as the worker's record in Redis.
struct SnapshotPublisher {
    private let metrics: MetricsEndpoint
    private let states: StatePublisher
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

    init(_ metrics: MetricsEndpoint, _ states: StatePublisher) { (self.metrics, self.states) = (metrics, states) }

    var deadline: Instant? { notices.deadline(isWatched: metrics.isOpen) }

    /// Whether a snapshot is wanted in this turn.
    mutating func isDue(now: Instant) -> Bool { notices.turned(now: now, isWatched: metrics.isOpen) }

    /// - Parameter figures: of the pools of all apps, in their order.
    mutating func publish(_ snapshot: consuming ProcessSnapshot, _ figures: [PoolFigures], now: Instant) {
        bottlenecks.add(figures, to: &snapshot, now: now)
        metrics.board.publish(snapshot, at: now)
        guard nextState <= now else { return }
        nextState = now + NoticeSchedule.most
        let record = state.record(of: snapshot.apps, now: now)
        let accepted = newAcceptances(snapshot.apps)
        let doubts = snapshot.apps.filter { !$0.isKnown(now: now) }.map(\.fingerprint)
        if record == nil && accepted.isEmpty && doubts == inDoubt { return }
        inDoubt = doubts
        states.publish(record, accepted: accepted, wanted: doubts)
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

    func adopt(_ new: Configuration) { states.adopt(new) }

    func renamed(to worker: String, list: Int) { states.renamed(to: worker, list: list) }

    func stop() { states.stop() }
}
