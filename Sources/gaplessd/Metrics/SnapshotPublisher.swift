import PushPool
import SystemTime

/// Publishes the state of this process: on the board of the metrics server, and as the worker's record in Redis.
struct SnapshotPublisher {
    private let metrics: MetricsEndpoint
    private let states: StatePublisher
    private var notices = NoticeSchedule()
    private var bottlenecks = BottleneckMeter()
    private var state = WorkerState()
    private var nextState = Instant.now

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
        if let record = state.record(of: snapshot.apps, now: now) { states.publish(record) }
    }

    func adopt(_ new: Configuration) { states.adopt(new) }

    func renamed(to worker: String, list: Int) { states.renamed(to: worker, list: list) }

    func stop() { states.stop() }
}
