/// What can be seen wrong in the keys of one list from outside.
public struct QueueAudit: Sendable, Equatable {
    /// Jobs in flight of a worker that is not registered: no other worker looks for them.
    public struct Stranded: Sendable, Equatable {
        public var worker: String
        public var jobs: Int
    }

    /// Everything as of one instant, the books among it.
    public var status: QueueStatus
    public var stranded: [Stranded] = []
    /// Registered workers of which nothing is told: their own calls are refused, and their jobs taken over after the lease.
    public var recordless: [String] = []
    /// Delayed elements that no daemon wrote: they have no `<worker>:<id>|` before the job, and will go out as they stand.
    public var delayedWithoutBar = 0
    /// Keys under the list's prefix that no daemon makes.
    public var foreignKeys: [String] = []

    /// Reads the status at one instant, and then looks through the server's keys, a thousand at a time.
    public static func read(_ client: inout RedisClient, _ keys: Keys) throws(RedisError) -> QueueAudit {
        var audit = QueueAudit(status: try QueueStatus.read(&client, keys))
        audit.recordless = audit.status.workers.filter { $0.details.isEmpty }.map(\.name)
        let known = Set([keys.workers, keys.delayed, keys.dead, keys.feedback, keys.stats] + keys.recovered)
        let (inflight, worker) = (keys.inflight(""), keys.worker(""))
        for key in try allKeys(of: keys, &client).subtracting(known).sorted() {
            if key.hasPrefix(inflight) {
                let name = String(key.dropFirst(inflight.count))
                let jobs = try client.command(["EVAL", strandedScript, "2", keys.workers, key, name]).integer ?? 0
                if jobs > 0 { audit.stranded.append(Stranded(worker: name, jobs: Int(jobs))) }
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
            guard let parts = reply.items, parts.count == 2, let next = parts[0].text else { throw .notRedis("no scan") }
            found.formUnion(parts[1].items?.compactMap(\.text) ?? [])
            cursor = next
        } while cursor != "0"
        return found
    }

    /// Every key that begins with the prefix, whatever characters of Redis' patterns stand in it.
    private static func pattern(_ prefix: String) -> String {
        prefix.reduce(into: "") { $0 += "[]*?\\^-".contains($1) ? "\\\($1)" : String($1) } + "*"
    }

    private static func delayedWithoutBar(_ keys: Keys, _ client: inout RedisClient) throws(RedisError) -> Int {
        var (count, cursor) = (0, "0")
        repeat {
            let reply = try client.command(["EVAL", barScript, "1", keys.delayed, cursor])
            guard let parts = reply.items, parts.count == 2, let next = parts[0].text else { throw .notRedis("no scan") }
            count += Int(parts[1].integer ?? 0)
            cursor = next
        } while cursor != "0"
        return count
    }

    /// KEYS: workers, inflight:W. ARGV: W. Asked at one instant, for a worker may leave between the scan and this.
    private static let strandedScript = """
        if redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end
        return redis.call('HLEN', KEYS[2])
        """

    /// The jobs stay where they are: only how many have no `<worker>:<id>|` comes back, beside the next cursor.
    private static let barScript = """
        local part = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', 500)
        local count = 0
        for i = 1, #part[2], 2 do
          if not string.find(part[2][i], '^[^|]+:[%d:]+|') then count = count + 1 end
        end
        return {part[1], count}
        """
}
