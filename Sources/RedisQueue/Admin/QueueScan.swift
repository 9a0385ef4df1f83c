/// Reads everything that Redis keeps of the pushes of one list, in small steps, for `find`.
///
/// The order follows the life cycle, so that a job that moves on during the scan is met later: waiting, recovered, delayed, in
/// flight, dead, feedback, results.
public struct QueueScan {
    public enum Place: String, Sendable, CaseIterable {
        case waiting, recovered, delayed
        case inFlight = "in_flight"
        case dead, feedback, results
    }

    public struct Entry: Sendable, Equatable {
        public var place: Place
        /// In a list: 1 is the oldest. The list may have changed since.
        public var position: Int?
        /// Of a delayed job, in milliseconds since 1970.
        public var due: Int64?
        /// Of a job in flight.
        public var worker: String?
        /// Of the newest state of a scope, which waits in its slot.
        public var scope: String?
        /// Of an entry of the results.
        public var stream: String?
        /// A job, a record, or the fields and values of a result.
        public var content: [[UInt8]]
    }

    /// Elements of one step.
    public static let mostElements = ListWalk.mostElements

    private let keys: Keys
    private let resultsKey: String?

    /// - Parameter resultsKey: of the stream of results; `nil` if none is kept.
    public init(_ keys: Keys, resultsKey: String?) { (self.keys, self.resultsKey) = (keys, resultsKey) }

    /// Passes the entries of a place to `body`, one page at a time, until it returns `false`.
    ///
    /// - Returns: the number of entries that were read.
    public func read(_ place: Place, _ client: inout RedisClient, _ body: ([Entry]) -> Bool) throws(RedisError) -> Int {
        switch place {
        case .waiting:
            var count = try readList(keys.list, place, &client, body)
            for app in try asideApps(keys, &client) { count += try readList(keys.aside(app), place, &client, body) }
            return try count + readStates(&client, body)
        case .recovered:
            var count = 0
            for key in keys.recovered { count += try readList(key, place, &client, body) }
            return count
        case .delayed: return try readDelayed(&client, body)
        case .inFlight: return try readInFlight(&client, body)
        case .dead:
            let passed = try client.command(["LLEN", keys.deadPassed]).count ?? 0
            let count = try readList(keys.dead, place, after: passed, &client, body)
            return try count + readList(keys.deadPassed, place, &client, body)
        case .feedback: return try readList(keys.feedback, place, &client, body)
        case .results: return try readResults(&client, body)
        }
    }

    /// Reads from the tail to the head.
    private func readList(
        _ key: String, _ place: Place, after before: Int = 0, _ client: inout RedisClient, _ body: ([Entry]) -> Bool
    ) throws(RedisError) -> Int {
        var (read, length) = (0, Int.max)
        while read < length {
            let page = try ListWalk(key, fromTail: true).page(skipping: read, &client)
            if page.elements.isEmpty { break }
            length = page.length
            let entries = page.elements.enumerated().map { offset, element in
                Entry(place: place, position: before + max(1, length - read - offset), content: [element])
            }
            read += entries.count
            guard body(entries) else { break }
        }
        return read
    }

    private func readStates(_ client: inout RedisClient, _ body: ([Entry]) -> Bool) throws(RedisError) -> Int {
        var read = 0
        while true {
            let page = try WaitingStates(keys).page(from: read, &client)
            read += page.count
            let entries = page.map { Entry(place: .waiting, scope: $0.scope, content: [$0.job]) }
            if entries.isEmpty || !body(entries) { return read }
        }
    }

    private func readDelayed(_ client: inout RedisClient, _ body: ([Entry]) -> Bool) throws(RedisError) -> Int {
        try scan(["ZSCAN", keys.delayed], &client) { pairs in
            body(
                pairs.map { element, score in
                    let job = WaitingJobs.job(ofDelayed: element)
                    return Entry(place: .delayed, due: WaitingJobs.due(score: score), content: [job])
                })
        }
    }

    private func readInFlight(_ client: inout RedisClient, _ body: ([Entry]) -> Bool) throws(RedisError) -> Int {
        var count = 0
        let registered = try client.command(["ZRANGE", keys.workers, "0", "-1"]).items?.compactMap(\.text) ?? []
        let holders = try client.command(["HKEYS", keys.holders]).items?.compactMap(\.text) ?? []
        for worker in registered + holders.filter({ !registered.contains($0) }) {
            for (number, entry) in pairs(try client.command(["HGETALL", keys.chunks(worker)]).items?.compactMap(\.bytes) ?? []) {
                let list = keys.chunks(worker) + ":" + String(decoding: number, as: UTF8.self)
                let jobs = try client.command(["LRANGE", list, "0", "-1"]).items?.compactMap(\.bytes) ?? []
                let held = zip(jobs, entry.dropFirst(2)).filter { $0.1 == UInt8(ascii: "1") }.map(\.0)
                count += held.count
                if !body(held.map { Entry(place: .inFlight, worker: worker, content: [$0]) }) { return count }
            }
            count += try scan(["HSCAN", keys.inflight(worker)], &client) { pairs in
                body(pairs.map { _, job in Entry(place: .inFlight, worker: worker, content: [job]) })
            }
        }
        return count
    }

    private func scan(
        _ command: [String], _ client: inout RedisClient, _ body: ([([UInt8], [UInt8])]) -> Bool
    ) throws(RedisError) -> Int {
        var count = 0
        try ListWalk.scan(&client, command, ["COUNT", "500"]) { items in
            let found = pairs(items.compactMap(\.bytes))
            count += found.count
            return found.isEmpty || body(found)
        }
        return count
    }

    /// Newest first.
    private func readResults(_ client: inout RedisClient, _ body: ([Entry]) -> Bool) throws(RedisError) -> Int {
        guard let resultsKey else { return 0 }
        var (count, end) = (0, "+")
        while true {
            let most = String(QueueScan.mostElements)
            let items = try client.command(["XREVRANGE", resultsKey, end, "-", "COUNT", most]).items ?? []
            let entries = items.compactMap { item -> Entry? in
                guard let parts = item.items, parts.count == 2, let id = parts[0].text, let fields = parts[1].items else {
                    return nil
                }
                return Entry(place: .results, stream: id, content: fields.compactMap(\.bytes))
            }
            // The first one of a further page was the last one of the page before.
            let new = entries.dropFirst(end == "+" ? 0 : 1)
            count += new.count
            guard !new.isEmpty, body(Array(new)), let last = new.last?.stream else { return count }
            end = last
        }
    }
}
