import JSONBytes
import RedisQueue

/// The consumer group that all relays of a results stream share. Redis gives each entry to one of them, and keeps it pending
/// until it is acknowledged.
struct ResultsGroup: ~Copyable {
    static let name = "gapless-relay"
    /// The consumer of entries that a relay gave up when it stopped. It exists only while it has entries.
    static let heir = "released"

    private var client: RedisClient
    private let stream: String
    private let keys: Keys
    private let consumer: String
    /// Milliseconds after which another relay's pending entries are taken over.
    private let minIdleTime: Int
    /// The place in the list of pending entries at which the search for abandoned ones continues.
    private var cursor = "0-0"

    /// - Parameters:
    ///   - keys: of the list that has the refused results.
    ///   - consumer: a name that no other process uses.
    init(_ client: consuming RedisClient, stream: String, keys: Keys, consumer: String, minIdleTime: Duration) {
        self.client = client
        (self.stream, self.keys, self.consumer) = (stream, keys, consumer)
        self.minIdleTime = max(1, Int(minIdleTime / .milliseconds(1)))
    }

    /// Creates the group. It begins with the oldest entry of the stream.
    ///
    /// - Returns: `false` if it existed.
    mutating func create() throws(RedisError) -> Bool {
        do throws(RedisError) {
            _ = try client.command(["XGROUP", "CREATE", stream, Self.name, "0", "MKSTREAM"])
            return true
        } catch .reply(let error) where error.isExistingGroup {
            return false
        }
    }

    /// Returns the next entries: those that a relay has abandoned, else new ones. Waits for them at most `wait` milliseconds.
    ///
    /// XAUTOCLAIM looks at ten times as many entries as it may return, from a cursor on. A call that always began with the oldest
    /// entry would never get past those that living relays hold.
    mutating func next(most: Int, wait: Int) throws(RedisError) -> (entries: [RelayEntry], trimmed: Int) {
        let claimed = try client.command([
            "XAUTOCLAIM", stream, Self.name, consumer, "\(minIdleTime)", cursor, "COUNT", "\(most)",
        ])
        let parts = claimed.items ?? []
        cursor = parts.first?.text ?? "0-0"
        let abandoned = (parts.count > 1 ? parts[1].items ?? [] : []).compactMap(RelayEntry.init)
        let trimmed = parts.count > 2 ? parts[2].items?.count ?? 0 : 0
        if !abandoned.isEmpty || trimmed > 0 { return (abandoned, trimmed) }
        let block = cursor == "0-0" ? ["BLOCK", "\(max(1, wait))"] : []
        let reply = try client.command(
            ["XREADGROUP", "GROUP", Self.name, consumer, "COUNT", "\(most)"] + block + ["STREAMS", stream, ">"])
        let entries = reply.items?.first?.items?.last?.items ?? []
        return (entries.compactMap(RelayEntry.init), 0)
    }

    /// Keeps entries from other relays while this one holds them.
    mutating func keep(_ ids: [String]) throws(RedisError) {
        if ids.isEmpty { return }
        _ = try client.command(["XCLAIM", stream, Self.name, consumer, "0"] + ids + ["JUSTID"])
    }

    /// Returns those of the entries that still belong to this relay.
    mutating func owned(_ ids: [String]) throws(RedisError) -> Set<String> {
        var owned: Set<String> = []
        for id in ids {
            let pending = try client.command(["XPENDING", stream, Self.name, id, id, "1", consumer])
            if pending.items?.isEmpty == false { owned.insert(id) }
        }
        return owned
    }

    mutating func acknowledge(_ ids: [String]) throws(RedisError) {
        if ids.isEmpty { return }
        _ = try client.command(["XACK", stream, Self.name] + ids)
    }

    /// Moves a result to the list of refused ones, and acknowledges it.
    ///
    /// - Returns: the number of refused results in the list; `nil` if the entry is not pending any more.
    mutating func setAside(_ refused: RelayPlan.Refused, at time: Int64) throws(RedisError) -> Int64? {
        let record = JSONValue.members([
            "reason": .string(refused.problem), "attempts": .integer(refused.attempts), "at": .number("\(time)"),
            "stream": .string(stream), "result": refused.entry.json,
        ])
        let head = ["EVAL", Self.refusedScript, "3", stream, keys.refused, keys.stats, Self.name, refused.entry.id]
        return try client.command(head.map { Array($0.utf8) } + [record.bytes]).integer
    }

    /// Gives all entries of this consumer to the next relay that asks, and removes the consumer.
    mutating func leave(_ ids: [String]) throws(RedisError) {
        _ = try client.command(
            ["EVAL", Self.leaveScript, "1", stream, Self.name, consumer, Self.heir, "\(minIdleTime)"] + ids)
    }

    /// KEYS: stream, refused, stats. ARGV: group, id, record. Without the right to XACK, or with a wrong type, the first commands
    /// fail before anything has changed.
    private static let refusedScript = """
        redis.call('XACK', KEYS[1], ARGV[1], '0-0')
        redis.call('HLEN', KEYS[3])
        if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) == 0 then return nil end
        local count = redis.call('RPUSH', KEYS[2], ARGV[3])
        redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
        redis.call('HINCRBY', KEYS[3], 'results_refused', 1)
        return count
        """

    /// KEYS: stream. ARGV: group, consumer, heir, idle time, ids. Redis forgets the pending entries of a consumer that is
    /// removed: a consumer with any stays.
    private static let leaveScript = """
        local function hasNone(name)
          return #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, name) == 0
        end
        for i = 5, #ARGV do
          if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) > 0 then
            redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, ARGV[i], 'IDLE', ARGV[4], 'JUSTID')
          end
        end
        for i = 2, 3 do
          if hasNone(ARGV[i]) then redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[i]) end
        end
        return 1
        """
}
