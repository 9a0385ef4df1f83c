/// The channels of a list in Redis, and the work on them that one process at a time does: creations and deletions.
///
/// Each change of a record compares it with what the caller has read, so that two processes never overwrite each other.
public struct ChannelRecords: Sendable {
    /// Records of one page: a page has about 20 kB.
    private static let page = 100
    /// Deletions that one call takes.
    private static let mostDue = 10
    private static let longestLease = Duration.seconds(600)

    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    // MARK: Records

    /// Returns the records of these fields.
    public func read(_ fields: [String], _ client: inout RedisClient) throws(RedisError) -> [[UInt8]?] {
        if fields.isEmpty { return [] }
        guard let items = try client.command(["HMGET", keys.channels] + fields).items, items.count == fields.count else {
            throw .notRedis("channels of another form")
        }
        return items.map(\.bytes)
    }

    /// Returns all fields with their records.
    public func all(_ client: inout RedisClient) throws(RedisError) -> [(field: String, record: [UInt8])] {
        let fields = try client.command(["HKEYS", keys.channels]).items?.compactMap(\.text) ?? []
        var found: [(field: String, record: [UInt8])] = []
        for start in stride(from: 0, to: fields.count, by: Self.page) {
            let part = Array(fields[start..<min(start + Self.page, fields.count)])
            for (field, record) in zip(part, try read(part, &client)) { if let record { found.append((field, record)) } }
        }
        return found
    }

    /// A change of a record.
    public struct Change: Sendable {
        public var field: String
        /// As the caller has read it; `nil` without a record.
        public var old: [UInt8]?
        /// `nil` removes the record, and its deletion.
        public var new: [UInt8]?
        /// Ends the creation under this name.
        public var creation: String?
        /// Deletes the channel after this time by Redis' clock.
        public var deletion: Duration?

        public init(
            _ field: String, from old: [UInt8]?, to new: [UInt8]?, creation: String? = nil, deletion: Duration? = nil
        ) {
            (self.field, self.old, self.new, self.creation, self.deletion) = (field, old, new, creation, deletion)
        }
    }

    /// Makes a change. Returns false if the record is not the old one any more.
    public func make(_ change: Change, _ client: inout RedisClient) throws(RedisError) -> Bool {
        let milliseconds = change.deletion.map { String(Int64(max(0, min($0 / .milliseconds(1), 1e15)))) }
        let arguments: [[UInt8]] = [
            Array(change.field.utf8), change.old ?? [], change.new ?? [], Array((change.creation ?? "").utf8),
            Array((milliseconds ?? "").utf8),
        ]
        return try client.evaluate(Self.changeScript, [keys.nothing, keys.channels, keys.channelWork], arguments).integer == 1
    }

    // MARK: Work

    /// The result of `beginCreation`.
    public enum Turn: Sendable, Equatable {
        /// Nobody else creates it for the time of the lease.
        case own
        /// Another process creates it, for at most this time.
        case other(Duration)
    }

    /// Leases the creation of a channel. A process that dies leaves the lease to its end.
    public func beginCreation(
        _ name: String, for lease: Duration, _ client: inout RedisClient
    ) throws(RedisError) -> Turn {
        let milliseconds = [lease, Self.longestLease].map { Int64($0 / .milliseconds(1)) }
        let reply = try client.evaluate(
            Self.creationScript, [keys.nothing, keys.channelWork], [Array(name.utf8)] + milliseconds.map { Array("\($0)".utf8) })
        guard let left = reply.integer, (0...milliseconds[1]).contains(left) else { throw .notRedis("a lease without a time") }
        return left == 0 ? .own : .other(.milliseconds(left))
    }

    /// Ends a creation that made no channel.
    public func endCreation(_ name: String, _ client: inout RedisClient) throws(RedisError) {
        _ = try client.command(["ZREM", keys.channelWork, "c" + name])
    }

    /// Returns the number of creations in progress.
    public func creations(_ client: inout RedisClient) throws(RedisError) -> Int {
        Int(try client.evaluate(Self.creationsScript, [keys.channelWork]).integer ?? 0)
    }

    /// Returns the fields whose deletion is due, a few at a time. They are due again after the lease unless their records are
    /// removed.
    public func takeDue(for lease: Duration, _ client: inout RedisClient) throws(RedisError) -> [String] {
        let arguments = [String(Self.mostDue), String(Int64(lease / .milliseconds(1)))]
        return try client.evaluate(Self.dueScript, [keys.nothing, keys.channelWork], arguments).items?.compactMap(\.text) ?? []
    }

    /// KEYS: nothing, channels, channel work. ARGV: field, old record, new record, creation, milliseconds until the deletion;
    /// an empty argument is absent. The work is written first: after a failure the record still is the old one. Replies whether
    /// it was.
    private static let changeScript =
        Lua.clock + """
            if (redis.call('HGET', KEYS[2], ARGV[1]) or '') ~= ARGV[2] then return 0 end
            redis.call('DEL', KEYS[1])
            if ARGV[5] ~= '' then
              redis.call('ZADD', KEYS[3], string.format('%.0f', clock() + ARGV[5]), 'd' .. ARGV[1])
            elseif ARGV[3] == '' then
              redis.call('ZREM', KEYS[3], 'd' .. ARGV[1])
            end
            if ARGV[3] == '' then
              redis.call('HDEL', KEYS[2], ARGV[1])
            else
              redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
            end
            if ARGV[4] ~= '' then redis.call('ZREM', KEYS[3], 'c' .. ARGV[4]) end
            return 1
            """

    /// KEYS: nothing, channel work. ARGV: name, milliseconds of the lease, and of the longest lease. Replies 0 if this process
    /// has the lease now, or the milliseconds that are left. A lease beyond the longest one dates from a clock that was set
    /// back.
    private static let creationScript =
        Lua.clock + """
            local now, span = math.floor(clock()), tonumber(ARGV[2])
            local ends = tonumber(redis.call('ZSCORE', KEYS[2], 'c' .. ARGV[1]) or 0)
            if ends > now and ends <= now + tonumber(ARGV[3]) then return ends - now end
            redis.call('DEL', KEYS[1])
            redis.call('ZADD', KEYS[2], string.format('%.0f', now + span), 'c' .. ARGV[1])
            return 0
            """

    /// KEYS: channel work. Replies the number of leases in force.
    private static let creationsScript =
        Lua.clock + """
            local count = 0
            for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', clock()), '+inf')) do
              if string.sub(member, 1, 1) == 'c' then count = count + 1 end
            end
            return count
            """

    /// KEYS: nothing, channel work. ARGV: the most fields, milliseconds until they are due again. Forgets leases that have ended.
    private static let dueScript =
        Lua.clock + """
            local now = clock()
            local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])
            if #due == 0 then return due end
            redis.call('DEL', KEYS[1])
            local fields = {}
            for _, member in ipairs(due) do
              if string.sub(member, 1, 1) == 'd' then
                redis.call('ZADD', KEYS[2], string.format('%.0f', now + ARGV[2]), member)
                fields[#fields + 1] = string.sub(member, 2)
              else
                redis.call('ZREM', KEYS[2], member)
              end
            end
            return fields
            """
}
