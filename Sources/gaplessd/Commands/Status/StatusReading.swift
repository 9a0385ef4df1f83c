import Clocks
import JSONBytes
import RedisQueue

/// All lists as Redis knows them at about one moment, each as of one instant.
struct StatusReading {
    /// What `dead_reasons` is counted from: the newest letters.
    static let lettersRead = 10_000
    /// Of one letter; its reason stands at its beginning.
    private static let beginning = 512

    struct List {
        var name: String
        var status: QueueStatus
        /// How many of the newest dead letters name which reason, most frequent first.
        var reasons: [(reason: String, count: Int)]
        var rates: [String: Rate] = [:]
    }

    /// What a worker did between two readings, per second.
    struct Rate {
        var claimed: Double
        var sent: Double
        var interval: Duration
    }

    var taken: Instant
    var lists: [List]

    /// - Parameter before: an earlier reading, which the rates are counted from.
    init(_ client: inout RedisClient, _ names: [String], after before: StatusReading? = nil) throws(RedisError) {
        lists = []
        taken = .now
        for (index, name) in names.enumerated() {
            let keys = Keys(list: name)
            let status = try QueueStatus.read(&client, keys)
            let known = before?.lists[index]
            // Reasons cost more than all else: they are counted again when there is another number of letters.
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

    /// The member `reason` of a record, of which the end may be missing.
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
            // What was cut off is no fault of the letter's; without a reason before it, none can be told.
        }
        return nil
    }
}

extension QueueStatus.Worker {
    /// One of its own counters.
    func count(_ name: String) -> Int64 { details[name].flatMap { Int64($0) } ?? 0 }
}
