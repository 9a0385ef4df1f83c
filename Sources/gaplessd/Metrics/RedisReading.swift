import Clocks
import RedisQueue
import Threads

/// What Redis knew of all lists at about one moment, or why it did not say.
struct RedisReading: Sendable {
    struct List: Sendable {
        var name: String
        var status: QueueStatus
        /// Pushes that all workers together sent per second, since the reading before.
        var sentPerSecond: Double?
    }

    var taken: Instant
    var lists: [List] = []
    /// Why there are no lists; `nil` where there are.
    var fault: String?

    /// The rates need two readings.
    mutating func measure(since before: RedisReading?) {
        guard let before else { return }
        let seconds = (taken - before.taken) / .seconds(1)
        guard seconds > 0, before.lists.count == lists.count else { return }
        for index in lists.indices {
            let sent = lists[index].status.counters[.sent, default: 0] - before.lists[index].status.counters[.sent, default: 0]
            lists[index].sentPerSecond = max(0, Double(sent)) / seconds
        }
    }
}
