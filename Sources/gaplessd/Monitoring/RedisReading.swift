import Platform
import RedisQueue

/// The state of all lists in Redis at about one moment, or the reason why it is unknown.
struct RedisReading: Sendable {
    struct List: Sendable {
        var name: String
        var status: QueueStatus
        /// Pushes per second of all workers together since the previous reading.
        var sentPerSecond: Double?
        /// The age of the job that is claimed next; `nil` if it is unknown.
        var age: Duration?
        /// Seconds until the list is empty at the present rate; `nil` if it is unknown.
        var drain: Double?
        /// Read for the page only.
        var letters: DeadLetterSummary?
    }

    var taken: Instant
    var lists: [List] = []
    /// The reason why there are no lists.
    var fault: String?

    var hasLetters: Bool { fault != nil || lists.allSatisfy { $0.letters != nil } }

    /// Sets the rates, which need two readings.
    mutating func measure(since before: RedisReading?) {
        guard let before else { return }
        let seconds = (taken - before.taken) / .seconds(1)
        guard seconds > 0, before.lists.count == lists.count else { return }
        for index in lists.indices {
            // As doubles: any program can write any number into the counter.
            let sent = Double(lists[index].status.counters[.sent, default: 0])
            lists[index].sentPerSecond = max(0, sent - Double(before.lists[index].status.counters[.sent, default: 0])) / seconds
        }
    }
}
