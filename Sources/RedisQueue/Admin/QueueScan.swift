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
        /// Of an entry of the results.
        public var stream: String?
        /// A job, a record, or the fields and values of a result.
        public var content: [[UInt8]]
    }

    /// Elements of one step.
    public static let mostElements = 1000
    static let mostBytes = 1 << 20

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
            return count
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

    /// Reads from the tail to the head: jobs are claimed at the head and pushed at the tail, so a place counted from the tail
    /// never moves past the reader.
    private func readList(
        _ key: String, _ place: Place, after before: Int = 0, _ client: inout RedisClient, _ body: ([Entry]) -> Bool
    ) throws(RedisError) -> Int {
        var (read, length) = (0, Int.max)
        while read < length {
            let numbers = [read, QueueScan.mostElements, QueueScan.mostBytes].map(String.init)
            let items = try client.command(["EVAL", QueueScan.tailScript, "1", key] + numbers).items ?? []
            guard items.count > 1, let now = items[0].count else { break }
            length = now
            let entries = items.dropFirst().enumerated().map { offset, item in
                Entry(place: place, position: before + max(1, length - read - offset), content: [item.bytes ?? []])
            }
            read += entries.count
            guard body(entries) else { break }
        }
        return read
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
            for (number, entry) in QueueScan.pairs(try client.command(["HGETALL", keys.chunks(worker)])) {
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

    private static func pairs(_ reply: RedisReply) -> [([UInt8], [UInt8])] {
        let items = reply.items?.compactMap(\.bytes) ?? []
        return stride(from: 0, to: items.count - 1, by: 2).map { (items[$0], items[$0 + 1]) }
    }

    private func scan(
        _ command: [String], _ client: inout RedisClient, _ body: ([([UInt8], [UInt8])]) -> Bool
    ) throws(RedisError) -> Int {
        var (count, cursor) = (0, "0")
        repeat {
            let reply = try client.command(command + [cursor, "COUNT", "500"])
            guard let parts = reply.items, parts.count == 2, let next = parts[0].text else {
                throw .notRedis("a scan without a cursor")
            }
            let pairs = QueueScan.pairs(parts[1])
            count += pairs.count
            if !pairs.isEmpty, !body(pairs) { return count }
            cursor = next
        } while cursor != "0"
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

    /// Returns a function that reads a list, or a sorted set with its scores, in pieces from an index towards the head. A piece
    /// has few elements, so that jobs of megabytes do not become gigabytes.
    static let pieces = """
        local function pieces(key, last, sorted)
          local step, count, bytes = 1, 0, 0
          return function()
            if last < 0 then return {} end
            local first = math.max(0, last - step + 1)
            local part
            if sorted then part = redis.call('ZRANGE', key, first, last, 'WITHSCORES')
            else part = redis.call('LRANGE', key, first, last) end
            last, count = first - 1, count + last - first + 1
            for _, text in ipairs(part) do bytes = bytes + #text end
            step = math.max(1, math.min(2 * step, 8, math.floor(\(mostBytes) * count / bytes)))
            return part
          end
        end

        """

    /// ARGV: number of elements that were read, counted from the tail, most elements, most bytes, `sorted` for a sorted set.
    /// Replies the length, and elements from the tail on, each followed by its score in a sorted set.
    static let tailScript =
        pieces + """
            local read, most, room, sorted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == 'sorted'
            local length = redis.call(sorted and 'ZCARD' or 'LLEN', KEYS[1])
            local nextPart, width = pieces(KEYS[1], length - 1 - read, sorted), sorted and 2 or 1
            local out, taken = {length}, 0
            while taken < most do
              local part = nextPart()
              if #part == 0 then break end
              for i = #part - width + 1, 1, -width do
                if taken >= most or (taken > 0 and #part[i] > room) then return out end
                room = room - #part[i]
                taken = taken + 1
                for place = i, i + width - 1 do out[#out + 1] = part[place] end
              end
            end
            return out
            """
}
