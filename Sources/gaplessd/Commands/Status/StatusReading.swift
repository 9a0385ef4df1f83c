import JSONBytes
import RedisQueue
import SystemTime

/// One reading of all lists from Redis. Each list is read atomically.
struct StatusReading {
    /// Number of newest dead letters that `dead_reasons` counts.
    static let lettersRead = 10_000
    /// Bytes that are read of a dead letter; its reason is at the beginning.
    private static let beginning = 512

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
            // The reasons are the largest cost: they are counted again only if the number of dead letters has changed.
            var list = List(name: name, status: status, reasons: known?.reasons ?? [])
            if known?.status.dead != status.dead { list.reasons = try Self.reasons(status.dead, keys, &client) }
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

    private static func reasons(
        _ count: Int, _ keys: Keys, _ client: inout RedisClient
    ) throws(RedisError) -> [(reason: String, count: Int)] {
        let letters = DeadLetterList(keys)
        var counts: [String: Int] = [:]
        var index = max(0, count - lettersRead)
        while index < count {
            let page = try letters.page(from: index, beginnings: beginning, most: 1000, &client)
            if page.isEmpty { break }
            for record in page { counts[reason(of: record) ?? "(unreadable)", default: 0] += 1 }
            index += page.count
        }
        return counts.map { (reason: $0.key, count: $0.value) }.sorted { ($1.count, $0.reason) < ($0.count, $1.reason) }
    }

    /// Returns the member `reason` of a record whose end may be missing.
    private static func reason(of record: [UInt8]) -> String? {
        let span = record.span
        var cursor = JSONCursor()
        do {
            try cursor.enterObject(in: span)
            while let key = try cursor.nextKey(in: span) {
                let value = try cursor.value(in: span)
                if key.equals("reason", in: span), value.kind == .string { return value.text(in: span) }
            }
        } catch {
            // The record was cut off before its reason.
        }
        return nil
    }
}

extension QueueStatus.Worker {
    /// A counter of this worker.
    func count(_ name: String) -> Int64 { details[name].flatMap { Int64($0) } ?? 0 }
}
