/// The faults in the keys of one list that are visible from outside.
public struct QueueAudit: Sendable, Equatable {
    /// Jobs in flight of a worker that is not registered: no other worker takes them over.
    public struct Stranded: Sendable, Equatable {
        public var worker: String
        public var jobs: Int
    }

    /// Everything as of one instant, the accounting included.
    public var status: QueueStatus
    public var stranded: [Stranded] = []
    /// Registered workers without a record: their own calls are refused, and their jobs are taken over after the lease.
    public var recordless: [String] = []
    /// Delayed elements that no daemon wrote: they have no `<worker>:<id>|` before the job, and become jobs unchanged.
    public var delayedWithoutBar = 0
    /// Keys with the list's prefix that no daemon creates.
    public var foreignKeys: [String] = []

    /// Reads the status at one instant, and then scans the server's keys, a thousand at a time.
    public static func read(_ client: inout RedisClient, _ keys: Keys) throws(RedisError) -> QueueAudit {
        var audit = QueueAudit(status: try QueueStatus.read(&client, keys))
        audit.recordless = audit.status.workers.filter { $0.details.isEmpty }.map(\.name)
        let known = keys.types.map(\.key)
        let (inflight, worker, chunks, aside) = (keys.inflight(""), keys.worker(""), keys.chunks(""), keys.aside(""))
        for key in try allKeys(of: keys, &client).subtracting(known).sorted() {
            if key.hasPrefix(inflight) {
                let name = String(key.dropFirst(inflight.count))
                let jobs = try client.command(["EVAL", strandedScript, "2", keys.workers, key, name]).count ?? 0
                if jobs > 0 { audit.stranded.append(Stranded(worker: name, jobs: jobs)) }
            } else if key.hasPrefix(chunks) {
                let parts = key.dropFirst(chunks.count).split(separator: ":").map(String.init)
                let arguments = ["2", keys.holders, keys.chunks(parts.first ?? ""), key] + parts
                if try client.command(["EVAL", ownerlessScript] + arguments).integer == 1 { audit.foreignKeys.append(key) }
            } else if key.hasPrefix(aside) {
                let arguments = ["2", keys.asides, key, String(key.dropFirst(aside.count))]
                if try client.command(["EVAL", unknownAsideScript] + arguments).integer == 1 { audit.foreignKeys.append(key) }
            } else if !key.hasPrefix(worker) {
                audit.foreignKeys.append(key)
            }
        }
        audit.delayedWithoutBar = try delayedWithoutBar(keys, &client)
        return audit
    }

    private static func allKeys(of keys: Keys, _ client: inout RedisClient) throws(RedisError) -> Set<String> {
        var found: Set<String> = []
        var cursor = "0"
        repeat {
            let reply = try client.command(["SCAN", cursor, "MATCH", pattern(keys.prefix), "COUNT", "1000"])
            guard let parts = reply.items, parts.count == 2, let next = parts[0].text else {
                throw .notRedis("a scan without a cursor")
            }
            found.formUnion(parts[1].items?.compactMap(\.text) ?? [])
            cursor = next
        } while cursor != "0"
        return found
    }

    /// Returns a pattern for every key with the prefix, in which special characters of patterns are escaped.
    private static func pattern(_ prefix: String) -> String {
        prefix.reduce(into: "") { $0 += "[]*?\\^-".contains($1) ? "\\\($1)" : String($1) } + "*"
    }

    private static func delayedWithoutBar(_ keys: Keys, _ client: inout RedisClient) throws(RedisError) -> Int {
        var (count, cursor) = (0, "0")
        repeat {
            let reply = try client.command(["EVAL", barScript, "1", keys.delayed, cursor])
            guard let parts = reply.items, parts.count == 2, let next = parts[0].text else {
                throw .notRedis("a scan without a cursor")
            }
            count &+= parts[1].count ?? 0
            cursor = next
        } while cursor != "0"
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

    /// Replies 1 for a side list without a field, by which daemons find it. KEYS: asides, the side list. ARGV: the app. One
    /// script, because the side list may end after the scan.
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
