/// The state of a queue in Redis at one instant.
public struct QueueStatus: Sendable, Equatable {
    public struct Worker: Sendable, Equatable {
        public var name: String
        /// Jobs it has claimed and not settled.
        public var inFlight: Int
        /// Its record: `host`, `pid`, `version`, `started` (Unix seconds), and its own `claimed` and `sent`.
        public var details: [String: String]
    }

    /// Jobs that wait in the list and in the side lists.
    public var backlog = 0
    /// The jobs in the side lists, by app (empty for the top level).
    public var asides: [String: Int] = [:]
    public var inFlight = 0
    public var delayed = 0
    public var recovered = 0
    public var dead = 0
    public var feedback = 0
    public var workers: [Worker] = []
    public var counters: [Counter: Int64] = [:]
    /// Jobs that `cancel` removed and that can be restored.
    public var cancelled = 0
    /// The pauses in force.
    public var pauses: [QueuePause] = []

    /// An empty queue without workers.
    public init() {}

    /// Changes with each new dead letter, also if the list is full: then the oldest one is dropped for it.
    public var deadLetterMark: [Int64] { [Int64(dead)] + [.dead, .expired, .trimmed].map { counters[$0, default: 0] } }

    /// Claimed jobs that no other counter explains. 0 when the accounting is right.
    public var unexplained: Int64 {
        let settled: [Counter] = [.sent, .retried, .postponed, .dead, .expired, .released, .recovered]
        // Wrapping, because a counter in Redis may have any value.
        return settled.reduce(counters[.claimed, default: 0] &- Int64(inFlight)) { $0 &- counters[$1, default: 0] }
    }

    /// Reads everything as of one instant.
    ///
    /// A script, because Redis refuses MULTI when it is out of memory.
    public static func read(_ client: inout RedisClient, _ keys: Keys) throws(RedisError) -> QueueStatus {
        let names =
            [keys.list, keys.workers, keys.delayed, keys.dead, keys.feedback, keys.stats] + keys.recovered + [
                keys.paused, keys.cancelled, keys.holders, keys.deadPassed, keys.cancelledPassed, keys.asides,
            ]
        let command = ["EVAL", script, String(names.count)] + names + [keys.inflight(""), keys.worker(""), keys.chunks("")]
        let reply = try client.command(command + Counter.allCases.map(\.rawValue))
        guard let items = reply.items, items.count >= 8 else { throw .notRedis("a status of another form") }
        return QueueStatus(items)
    }

    /// ARGV: the prefixes of a worker's keys, then names of counters. The jobs in flight include those of workers that are not
    /// registered any more, and will be taken over.
    private static let script =
        Scripts.clock + Scripts.pauses + Scripts.asides + """
            local recovered = 0
            for i = 7, 9 do recovered = recovered + redis.call('LLEN', KEYS[i]) end
            local out = {
              redis.call('LLEN', KEYS[1]), redis.call('ZCARD', KEYS[3]),
              redis.call('LLEN', KEYS[4]) + redis.call('LLEN', KEYS[13]),
              redis.call('LLEN', KEYS[5]),
              recovered, redis.call('HMGET', KEYS[6], unpack(ARGV, 4)), asides(KEYS[15], (pauses(KEYS[10]))) or 0,
              redis.call('LLEN', KEYS[11]) + redis.call('LLEN', KEYS[14])
            }
            local function held(name)
              local count = redis.call('HLEN', ARGV[1] .. name)
              local chunks = redis.call('HGETALL', ARGV[3] .. name)
              for i = 2, #chunks, 2 do count = count + select(2, string.gsub(string.sub(chunks[i], 3), '1', '')) end
              return count
            end
            for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
              out[#out + 1] = {name, held(name), redis.call('HGETALL', ARGV[2] .. name)}
            end
            for _, name in ipairs(redis.call('HKEYS', KEYS[12])) do
              if not redis.call('ZSCORE', KEYS[2], name) then out[#out + 1] = held(name) end
            end
            return out
            """

    /// - Parameter items: at least 8.
    init(_ items: [RedisReply]) {
        let counts = items.prefix(5).map { $0.count ?? 0 }
        (backlog, delayed, dead, feedback, recovered) = (counts[0], counts[1], counts[2], counts[3], counts[4])
        for (counter, value) in zip(Counter.allCases, items[5].items ?? []) {
            counters[counter] = value.text.flatMap { Int64($0) } ?? 0
        }
        cancelled = items[7].count ?? 0
        pauses = QueuePause.split(items[6])?.pauses ?? []
        asides = QueuePause.sideLists(items[6])
        for count in asides.values { backlog &+= count }
        for case .integer(let held) in items.dropFirst(8) { inFlight &+= Int(held) }
        for case .array(let parts) in items.dropFirst(8) where parts.count == 3 {
            let texts = parts[2].items?.compactMap(\.text) ?? []
            var details: [String: String] = [:]
            for start in stride(from: 0, to: texts.count - 1, by: 2) { details[texts[start]] = texts[start + 1] }
            let held = parts[1].count ?? 0
            inFlight &+= held
            workers.append(Worker(name: parts[0].text ?? "", inFlight: held, details: details))
        }
    }
}
