/// The state of a queue in Redis at one instant.
public struct QueueStatus: Sendable, Equatable {
    public struct Worker: Sendable, Equatable {
        public var name: String
        /// Jobs it has claimed and not settled.
        public var inFlight: Int
        /// Its record: `host`, `pid`, `version`, `started` (Unix seconds), and its own `claimed` and `sent`.
        public var details: [String: String]
        /// The time since its last beat; `nil` for a worker of 0.2 or older.
        public var sinceBeat: Duration?

        public init(name: String, inFlight: Int, details: [String: String], sinceBeat: Duration? = nil) {
            (self.name, self.inFlight, self.details, self.sinceBeat) = (name, inFlight, details, sinceBeat)
        }

        /// The time since its last beat, if the next one is late: it was killed, is stopped, or does not reach Redis.
        public var silence: Duration? {
            let lease = details["lease"].flatMap { Int64($0) }.map { Duration.milliseconds(max(0, min($0, 1 << 40))) }
            // A worker beats each fifth of its lease.
            return sinceBeat.flatMap { $0 > (lease ?? .seconds(15)) / 10 * 3 ? $0 : nil }
        }
    }

    /// Jobs that wait in the list, in the side lists and in slots.
    public var backlog = 0
    /// The jobs in slots: the newest states of their scopes.
    public var states = 0
    /// The time for which the oldest of them waits.
    public var stateAge = Duration.zero
    /// The channels and tokens that have a pause between two updates, because of APNs' responses or `channel_pace`.
    public var paced = 0
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
    /// The campaigns that monitoring shows: see `CampaignList.read`. Read after everything else.
    public var campaigns: [CampaignStatus] = []

    /// An empty queue without workers.
    public init() {}

    /// The workers whose beats arrive.
    public var living: Int { workers.count { $0.silence == nil } }

    /// Changes with each new dead letter, also if the list is full: then the oldest one is dropped for it.
    public var deadLetterMark: [Int64] { [Int64(dead)] + [.dead, .expired, .trimmed].map { counters[$0, default: 0] } }

    /// Claimed jobs that no other counter explains. 0 when the accounting is right.
    public var unexplained: Int64 { Counter.unexplained(counters, inFlight: inFlight) }

    /// Reads everything as of one instant.
    ///
    /// A script, because Redis refuses MULTI when it is out of memory.
    public static func read(_ client: inout RedisClient, _ keys: Keys) throws(RedisError) -> QueueStatus {
        let names =
            [keys.list, keys.workers, keys.delayed, keys.dead, keys.feedback, keys.stats] + keys.recovered + [
                keys.paused, keys.cancelled, keys.holders, keys.deadPassed, keys.cancelledPassed, keys.asides,
                keys.waiting, keys.paced,
            ]
        let prefixes = [keys.inflight(""), keys.worker(""), keys.chunks("")]
        let reply = try client.evaluate(script, names, prefixes + Counter.allCases.map(\.rawValue))
        guard let items = reply.items, items.count >= 8 else { throw .notRedis("a status of another form") }
        var status = QueueStatus(items)
        status.campaigns = try CampaignList(keys).read(&client)
        return status
    }

    /// ARGV: the prefixes of a worker's keys, then names of counters. The jobs in flight include those of workers that are not
    /// registered any more, and will be taken over.
    private static let script =
        Lua.clock + Lua.pauses + Lua.asides + """
            local recovered = 0
            for i = 7, 9 do recovered = recovered + redis.call('LLEN', KEYS[i]) end
            local out = {
              redis.call('LLEN', KEYS[1]), redis.call('ZCARD', KEYS[3]),
              redis.call('LLEN', KEYS[4]) + redis.call('LLEN', KEYS[13]),
              redis.call('LLEN', KEYS[5]),
              recovered, redis.call('HMGET', KEYS[6], unpack(ARGV, 4)), asides(KEYS[15], (pauses(KEYS[10]))) or 0,
              redis.call('LLEN', KEYS[11]) + redis.call('LLEN', KEYS[14])
            }
            local oldest = redis.call('ZRANGE', KEYS[16], 0, 0, 'WITHSCORES')[2]
            local age = oldest and math.max(0, math.floor(clock() - tonumber(oldest))) or 0
            out[9] = {redis.call('ZCARD', KEYS[16]), age, redis.call('ZCARD', KEYS[17])}
            local function held(name)
              local count = redis.call('HLEN', ARGV[1] .. name)
              local chunks = redis.call('HGETALL', ARGV[3] .. name)
              for i = 2, #chunks, 2 do count = count + select(2, string.gsub(string.sub(chunks[i], 3), '1', '')) end
              return count
            end
            for _, name in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
              local beat = tonumber(redis.call('HGET', ARGV[2] .. name, 'beat') or '')
              local silence = beat and math.max(0, math.min(2 ^ 52, math.floor(clock() - beat))) or -1
              out[#out + 1] = {name, held(name), redis.call('HGETALL', ARGV[2] .. name), silence}
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
        if items.count > 8, let numbers = items[8].items?.map({ $0.count ?? 0 }), numbers.count == 3 {
            (states, stateAge, paced) = (numbers[0], .milliseconds(numbers[1]), numbers[2])
            backlog &+= states
        }
        for case .integer(let held) in items.dropFirst(8) { inFlight &+= Int(held) }
        for case .array(let parts) in items.dropFirst(8) where parts.count == 4 {
            let texts = parts[2].items?.compactMap(\.text) ?? []
            var details: [String: String] = [:]
            for start in stride(from: 0, to: texts.count - 1, by: 2) { details[texts[start]] = texts[start + 1] }
            guard let name = parts[0].text else { continue }
            let held = parts[1].count ?? 0
            inFlight &+= held
            let silence = parts[3].integer.flatMap { $0 < 0 ? nil : Duration.milliseconds($0) }
            workers.append(Worker(name: name, inFlight: held, details: details, sinceBeat: silence))
        }
    }
}

/// The faults in the keys of one list that are visible from outside.
public struct QueueAudit: Sendable {
    /// Jobs in flight of a worker that is not registered: no other worker takes them over.
    public struct Stranded: Sendable, Equatable {
        public var worker: String
        public var jobs: Int
    }

    /// Everything as of one instant, the accounting included.
    public var status: QueueStatus
    /// The data of the list, for a comparison with an earlier reading.
    public var data: DataSet
    /// The last loss of each kind that a worker found, the older first. Unix seconds.
    public var losses: [(loss: DataSet.Loss, at: Int64)] = []
    public var stranded: [Stranded] = []
    /// Registered workers without a record: their own calls are refused, and their jobs are taken over after the lease.
    public var recordless: [String] = []
    /// Delayed elements that no daemon wrote: they have no `<worker>:<id>|` before the job, and become jobs unchanged.
    public var delayedWithoutBar = 0
    /// Keys with the list's prefix that no daemon creates.
    public var foreignKeys: [String] = []

    /// Reads the status at one instant, and then scans the server's keys, a thousand at a time.
    public static func read(_ client: inout RedisClient, _ keys: Keys) throws(RedisError) -> QueueAudit {
        let server = try DataSet.serverID(&client)
        let data = try DataSet.read(&client, keys, server: server, at: try DataSet.time(&client))
        var audit = QueueAudit(status: try QueueStatus.read(&client, keys), data: data)
        audit.losses = losses(try client.command(["HMGET", keys.stats] + DataSet.Loss.allCases.map(\.rawValue)))
        audit.recordless = audit.status.workers.filter { $0.details.isEmpty }.map(\.name)
        let known = keys.types.map(\.key)
        let (inflight, worker, chunks, aside) = (keys.inflight(""), keys.worker(""), keys.chunks(""), keys.aside(""))
        let scope = keys.scope("")
        let campaigns = [keys.campaign(""), keys.audience(""), keys.cancelledAudience("")]
        for key in try allKeys(of: keys, &client).subtracting(known).sorted() {
            if key.hasPrefix(inflight) {
                let name = String(key.dropFirst(inflight.count))
                let jobs = try client.evaluate(strandedScript, [keys.workers, key], [name]).count ?? 0
                if jobs > 0 { audit.stranded.append(Stranded(worker: name, jobs: jobs)) }
            } else if key.hasPrefix(chunks) {
                let parts = key.dropFirst(chunks.count).split(separator: ":").map(String.init)
                let owner = [keys.holders, keys.chunks(parts.first ?? "")]
                if try client.evaluate(ownerlessScript, owner, [key] + parts).integer == 1 { audit.foreignKeys.append(key) }
            } else if key.hasPrefix(aside) || key.hasPrefix(scope) {
                let app = key.hasPrefix(aside) ? String(key.dropFirst(aside.count)) : Slots.mark + key.dropFirst(scope.count)
                if try client.evaluate(unknownAsideScript, [keys.asides, key], [app]).integer == 1 {
                    audit.foreignKeys.append(key)
                }
            } else if !key.hasPrefix(worker), !campaigns.contains(where: key.hasPrefix) {
                audit.foreignKeys.append(key)
            }
        }
        audit.delayedWithoutBar = try delayedWithoutBar(keys, &client)
        return audit
    }

    /// The jobs that workers put back into an emptied Redis count as a rollback too.
    private static let sameLoss: Int64 = 60

    /// - Parameter reply: the times, in milliseconds.
    private static func losses(_ reply: RedisReply) -> [(loss: DataSet.Loss, at: Int64)] {
        var times: [DataSet.Loss: Int64] = [:]
        for (loss, item) in zip(DataSet.Loss.allCases, reply.items ?? []) {
            times[loss] = item.text.flatMap { Int64($0) }.map { $0 / 1000 }
        }
        if let emptied = times[.emptied], let rolledBack = times[.rolledBack], 0...sameLoss ~= rolledBack &- emptied {
            times[.rolledBack] = nil
        }
        return times.map { (loss: $0.key, at: $0.value) }.sorted { $0.at < $1.at }
    }

    private static func allKeys(of keys: Keys, _ client: inout RedisClient) throws(RedisError) -> Set<String> {
        var found: Set<String> = []
        try ListWalk.scan(&client, ["SCAN"], ["MATCH", pattern(keys.prefix), "COUNT", "1000"]) { items in
            found.formUnion(items.compactMap(\.text))
            return true
        }
        return found
    }

    /// Returns a pattern for every key with the prefix, in which special characters of patterns are escaped.
    private static func pattern(_ prefix: String) -> String {
        prefix.reduce(into: "") { $0 += "[]*?\\^-".contains($1) ? "\\\($1)" : String($1) } + "*"
    }

    private static func delayedWithoutBar(_ keys: Keys, _ client: inout RedisClient) throws(RedisError) -> Int {
        var count = 0
        try ListWalk.scan(&client, ["EVAL", barScript, "1", keys.delayed]) { items in
            count &+= items.first?.count ?? 0
            return true
        }
        return count
    }

    /// KEYS: workers, inflight:W. ARGV: W. One script, because the worker may leave after the scan.
    private static let strandedScript = """
        if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
        return redis.call('HLEN', KEYS[2])
        """

    /// Replies 1 for a key of chunks whose worker does not keep it. KEYS: holders, chunks:W. ARGV: the key, W, and the number of
    /// the chunk if it is the list of one. One script, because the chunk may end after the scan.
    private static let ownerlessScript = """
        if redis.call('EXISTS', ARGV[1]) == 0 then return 0 end
        if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then return 1 end
        return ARGV[3] and redis.call('HEXISTS', KEYS[2], ARGV[3]) == 0 and 1 or 0
        """

    /// Replies 1 for a side list, or a sorted set of slots, without a field, by which daemons find it. KEYS: asides, the key.
    /// ARGV: the field. One script, because the key may end after the scan.
    private static let unknownAsideScript = """
        return redis.call('EXISTS', KEYS[2]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and 1 or 0
        """

    /// Replies the next cursor and the number of elements without `<worker>:<id>|`.
    private static let barScript = """
        local part = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', 500)
        local count = 0
        for i = 1, #part[2], 2 do
          if not string.find(part[2][i], '^[^|]+:[%d:]+|') then count = count + 1 end
        end
        return {part[1], count}
        """
}

/// The part of a worker's record that tells the state of its apps, for `status`.
public enum WorkerRecord {
    /// The field of the record with the apps that a view shows first.
    public static let apps = "apps"
    /// The field with the numbers of all apps.
    public static let appCounts = "app_counts"

    /// The values of both, as JSON.
    public struct Fields: Sendable, Equatable {
        public var apps: [UInt8]
        public var counts: [UInt8]

        public init(apps: [UInt8], counts: [UInt8]) { (self.apps, self.counts) = (apps, counts) }
    }

    /// Writes the state of the apps, if the worker is registered.
    public static func write(
        _ fields: Fields, of worker: String, _ keys: Keys, _ client: inout RedisClient
    ) throws(RedisError) {
        let values = [Array(apps.utf8), fields.apps, Array(appCounts.utf8), fields.counts]
        _ = try client.evaluate(script, [keys.nothing, keys.worker(worker)], values)
    }

    /// KEYS: nothing, worker:W. ARGV: fields and values. As in `Scripts`, the DEL lets it finish when Redis is out of memory.
    static let script = """
        if redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
        redis.call('DEL', KEYS[1])
        redis.call('HSET', KEYS[2], unpack(ARGV))
        return 1
        """
}
