import Platform
import RedisQueue

/// The age of one list and the time to drain it, from one look per second.
struct ListFlow {
    /// The time over which the rate is smoothed.
    private static let smoothing = 10.0

    private var queueAge = QueueAge()
    private var last: (settled: Double, at: Instant)?
    /// Jobs that leave the queue for good, per second, of all workers together; `nil` before the second look.
    private(set) var settledPerSecond: Double?

    var question: TailProbe.Question { queueAge.question }
    var age: Duration? { queueAge.age }

    /// - Parameter answer: `nil` if Redis refused it.
    mutating func looked(_ status: QueueStatus, _ answer: TailProbe.Answer?, at now: Instant) {
        if let answer {
            let isPaused = status.pauses.contains { $0.app == nil }
            queueAge.looked(answer, inFlight: status.inFlight, isPaused: isPaused, at: now)
        } else {
            queueAge = QueueAge()
        }
        let settled = [Counter.sent, .dead, .expired].reduce(0.0) { $0 + Double(status.counters[$1, default: 0]) }
        defer { last = (settled, now) }
        guard let last, now > last.at else { return }
        let seconds = (now - last.at) / .seconds(1)
        let rate = max(0, settled - last.settled) / seconds
        let weight = min(1, seconds / Self.smoothing)
        settledPerSecond = settledPerSecond.map { $0 + (rate - $0) * weight } ?? rate
    }

    /// Seconds until the waiting jobs are gone at the present rate; `nil` if it is unknown, or if nothing leaves.
    func drain(of backlog: Int) -> Double? {
        if backlog <= 0 { return 0 }
        guard let rate = settledPerSecond, rate >= 0.01 else { return nil }
        return Double(backlog) / rate
    }
}
