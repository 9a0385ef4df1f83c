import JSONBytes
import Platform
import RedisQueue

/// One reading of all lists from Redis. Each list is read atomically.
struct StatusReading {
    /// Number of newest dead letters that `dead_reasons` counts.
    static let lettersRead = 10_000

    struct List {
        var name: String
        var status: QueueStatus
        /// Reasons of the newest dead letters with their numbers, most frequent first.
        var reasons: [(reason: String, count: Int)]
        var rates: [String: Rate] = [:]
    }

    /// Jobs per second of a worker between two readings.
    struct Rate {
        var claimed: Double
        var sent: Double
        var interval: Duration
    }

    var taken: Instant
    var lists: [List]
}

extension StatusReading {
    /// - Parameter before: an earlier reading, from which the rates are measured.
    init(_ client: inout RedisClient, _ names: [String], after before: StatusReading? = nil) throws(RedisError) {
        lists = []
        taken = .now
        for (index, name) in names.enumerated() {
            let keys = Keys(list: name)
            let status = try QueueStatus.read(&client, keys)
            let known = before?.lists[index]
            // The reasons are the largest cost: they are counted again only if dead letters have come or gone.
            var list = List(name: name, status: status, reasons: known?.reasons ?? [])
            if known?.status.deadLetterMark != status.deadLetterMark {
                list.reasons = try DeadLetterSummary(status.dead, counted: Self.lettersRead, shown: 0, keys, &client).reasons
            }
            lists.append(list)
        }
        if let before { measure(since: before) }
    }

    var hasWorkers: Bool { lists.contains { !$0.status.workers.isEmpty } }

    private mutating func measure(since before: StatusReading) {
        let interval = taken - before.taken
        let seconds = interval / .seconds(1)
        guard seconds > 0 else { return }
        for (index, earlier) in before.lists.enumerated() {
            for worker in lists[index].status.workers {
                guard let former = earlier.status.workers.first(where: { $0.name == worker.name }) else { continue }
                let rate = { (counter: String) in max(0, Double(worker.count(counter)) - Double(former.count(counter))) / seconds
                }
                lists[index].rates[worker.name] = Rate(claimed: rate("claimed"), sent: rate("sent"), interval: interval)
            }
        }
    }
}

extension QueueStatus.Worker {
    /// A counter of this worker.
    func count(_ name: String) -> Int64 { details[name].flatMap { Int64($0) } ?? 0 }
}
