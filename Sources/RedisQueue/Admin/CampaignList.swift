/// The figures of one campaign.
public struct CampaignStatus: Sendable, Equatable {
    public var id: String
    /// Tokens that were handed over, and those that were not claimed or cancelled yet.
    public var audience = 0
    public var waiting = 0
    public var sent = 0
    public var dead = 0
    public var expired = 0
    public var retried = 0
    public var cancelled = 0
    /// Dead letters by reason, the most frequent first.
    public var reasons: [(reason: String, count: Int)] = []
    /// Milliseconds since 1970; `nil` for an event that has not happened.
    public var created: Int64?
    public var changed: Int64?
    public var ended: Int64?
    /// Milliseconds over which the pushes are spread; 0 without a pace.
    public var over: Int64 = 0
    /// The failures among the last outcomes at which it stops, and the share that its job names; 0: never.
    public var stop = 0
    public var stopAt = 0.0
    /// Failures among the last outcomes, and the number of these.
    public var failures = 0
    public var outcomes = 0
    /// Outcomes per second, lately: 0 if there was none for ten seconds.
    public var rate = 0.0
    /// Redis' clock at the reading, in milliseconds since 1970.
    public var now: Int64 = 0

    /// Tokens without an outcome, retries included.
    public var remaining: Int { max(0, audience &- sent &- dead &- expired &- cancelled) }

    /// The time at which the last token has an outcome, at the pace or at the present rate; `nil` if it is unknown.
    public var expectedEnd: Int64? {
        if remaining == 0 { return nil }
        let pace = over > 0 ? Double(audience) / Double(over) : 0
        let perMillisecond = pace > 0 ? pace : rate / 1000
        guard perMillisecond > 0 else { return nil }
        return now + Int64(min(1e15, Double(remaining) / perMillisecond))
    }

    public static func == (left: Self, right: Self) -> Bool {
        left.id == right.id && left.audience == right.audience && left.waiting == right.waiting && left.sent == right.sent
            && left.dead == right.dead && left.expired == right.expired && left.cancelled == right.cancelled
            && left.ended == right.ended
    }
}

/// The campaigns of one list, for calls and monitoring.
public struct CampaignList: Sendable {
    /// Campaigns that monitoring shows.
    public static let mostShown = 20
    /// Tokens that one step moves.
    private static let mostTokens = 1000

    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    private static let fields = [
        "audience", "sent", "dead", "expired", "retried", "cancelled", "created", "changed", "ended", "over", "stop", "rate",
        "stop_at",
    ]

    /// Returns the names of campaigns, those that have not ended first.
    public func names(most: Int, _ client: inout RedisClient) throws(RedisError) -> [String] {
        var names: [String] = []
        for range in [["0", "+inf"], ["-inf", "(0"]] where names.count < most {
            let command = ["ZRANGEBYSCORE", keys.campaigns] + range + ["LIMIT", "0", String(most - names.count)]
            names += try client.command(command).items?.compactMap(\.text) ?? []
        }
        return names
    }

    /// Returns campaigns: those that have not ended, the oldest first, and then the others, the newest first.
    public func read(most: Int = mostShown, _ client: inout RedisClient) throws(RedisError) -> [CampaignStatus] {
        var all: [CampaignStatus] = []
        for id in try names(most: most, &client) { if let status = try status(of: id, &client) { all.append(status) } }
        return all
    }

    /// `nil` if there is no such campaign, or its figures have expired.
    public func status(of id: String, _ client: inout RedisClient) throws(RedisError) -> CampaignStatus? {
        let touched = [keys.campaign(id), keys.audience(id)]
        guard let items = try client.evaluate(CampaignList.script, touched, CampaignList.fields).items, items.count >= 5,
            let values = items[2].items
        else { return nil }
        var status = CampaignStatus(id: id)
        let numbers = values.map { $0.text.flatMap(Double.init).map { Int64(max(-1e15, min($0, 1e15))) } }
        func count(_ index: Int) -> Int { Int(numbers[index] ?? 0) }
        guard numbers.count == CampaignList.fields.count else { return nil }
        (status.audience, status.sent, status.dead, status.expired) = (count(0), count(1), count(2), count(3))
        (status.retried, status.cancelled) = (count(4), count(5))
        (status.created, status.changed, status.ended) = (numbers[6], numbers[7], numbers[8])
        (status.over, status.stop) = (numbers[9] ?? 0, count(10))
        status.rate = values[11].text.flatMap(Double.init) ?? 0
        status.stopAt = values[12].text.flatMap(Double.init) ?? 0
        status.now = items[0].integer ?? 0
        status.waiting = items[1].count ?? 0
        (status.failures, status.outcomes) = (items[3].count ?? 0, items[4].count ?? 0)
        if status.changed.map({ status.now - $0 > 10_000 }) ?? true { status.rate = 0 }
        var rest = items.dropFirst(5)
        while let reason = rest.popFirst()?.text, let number = rest.popFirst()?.text {
            status.reasons.append((reason, Int(number) ?? 0))
        }
        status.reasons.sort { ($1.count, $0.reason) < ($0.count, $1.reason) }
        return status
    }

    /// KEYS: campaign, audience. ARGV: fields. Replies nothing for an unknown campaign.
    private static let script =
        Lua.clock + """
            local kind = redis.call('HGET', KEYS[1], 'kind')
            if not kind then return {} end
            local size = ({list = 'LLEN', set = 'SCARD', zset = 'ZCARD'})[kind]
            local window = redis.call('HGET', KEYS[1], 'window') or ''
            local out = {
              math.floor(clock()), size and redis.call(size, KEYS[2]) or 0, redis.call('HMGET', KEYS[1], unpack(ARGV)),
              select(2, string.gsub(window, '1', '')), #window
            }
            for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
              if string.sub(field, 1, 7) == 'reason:' then
                out[#out + 1] = string.sub(field, 8)
                out[#out + 1] = redis.call('HGET', KEYS[1], field)
              end
            end
            return out
            """

    // MARK: Cancel and undo

    public enum Direction: String, Sendable { case cancel, undo }

    /// Returns the number of tokens that `move` would move.
    public func count(_ direction: Direction, of id: String, _ client: inout RedisClient) throws(RedisError) -> Int {
        let key = direction == .cancel ? keys.audience(id) : keys.cancelledAudience(id)
        return try client.evaluate(CampaignList.countScript, [keys.campaign(id), key]).count ?? 0
    }

    /// Cancels tokens that were not claimed, the last ones first, or restores cancelled ones, the first ones first. All of them
    /// take one step without a copy, and fewer take steps of a thousand.
    ///
    /// - Returns: the number of this step; 0 when none is left.
    public func move(
        _ direction: Direction, _ most: Int, of id: String, _ client: inout RedisClient
    ) throws(RedisError) -> Int {
        let touched = [keys.nothing, keys.campaigns, keys.campaign(id), keys.audience(id), keys.cancelledAudience(id)]
        let arguments = [id, String(min(most, 1 << 50)), direction.rawValue]
        return try client.evaluate(CampaignList.moveScript, touched, arguments).count ?? 0
    }

    private static let sizes = "local sizes = {list = 'LLEN', set = 'SCARD', zset = 'ZCARD'}\n"

    private static let countScript =
        sizes + """
            local size = sizes[redis.call('HGET', KEYS[1], 'kind') or '']
            return size and redis.call(size, KEYS[2]) or 0
            """

    /// KEYS: nothing, campaigns, campaign, audience, cancelled audience. ARGV: id, most tokens, direction. As in `Scripts`, each
    /// command is tried first, and a token is added before it is removed.
    static let moveScript =
        sizes + counting + """
            local id, most, isUndo = ARGV[1], tonumber(ARGV[2]), ARGV[3] == 'undo'
            local kind = redis.call('HGET', KEYS[3], 'kind')
            if not sizes[kind] then return 0 end
            local from, to = isUndo and KEYS[5] or KEYS[4], isUndo and KEYS[4] or KEYS[5]
            local there, moved = redis.call(sizes[kind], from), 0
            if there == 0 then return 0 end
            redis.call(sizes[kind], to) redis.call('ZCARD', KEYS[2])
            clock()
            redis.call('DEL', KEYS[1])
            redis.call('EXISTS', KEYS[1]) redis.call('PERSIST', KEYS[1]) redis.call('PEXPIRE', KEYS[1], 1000)
            if kind == 'list' then
              redis.call('LRANGE', KEYS[1], 0, 0)
              redis.call('RPUSH', KEYS[1], '') redis.call('LPUSH', KEYS[1], '') redis.call('LTRIM', KEYS[1], 0, 0)
            elseif kind == 'zset' then
              redis.call('ZRANGE', KEYS[1], 0, 0)
              redis.call('ZADD', KEYS[1], 0, '') redis.call('ZREMRANGEBYRANK', KEYS[1], 1, 1)
            else
              redis.call('SRANDMEMBER', KEYS[1], 1)
              redis.call('SADD', KEYS[1], '', 'x') redis.call('SREM', KEYS[1], '')
            end
            redis.call('RENAMENX', KEYS[1], KEYS[1])
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[3], 'kind', kind) redis.call('HDEL', KEYS[3], '') redis.call('HINCRBY', KEYS[3], 'left', 0)
            redis.call('ZADD', KEYS[2], 'XX', 0, '')
            if most >= there and redis.call('EXISTS', to) == 0 then
              redis.call('RENAMENX', from, to)
              moved = there
            else
              moved = math.min(most, there, \(mostTokens))
              -- The end of the audience joins the beginning of the cancelled tokens.
              local first, last = isUndo and 0 or there - moved, isUndo and moved - 1 or there - 1
              if kind == 'list' then
                local part = redis.call('LRANGE', from, first, last)
                if isUndo then
                  redis.call('RPUSH', to, unpack(part))
                  redis.call('LTRIM', from, moved, -1)
                else
                  for i = #part, 1, -1 do redis.call('LPUSH', to, part[i]) end
                  redis.call('LTRIM', from, 0, -1 - moved)
                end
              elseif kind == 'zset' then
                local part = redis.call('ZRANGE', from, first, last, 'WITHSCORES')
                for i = 1, #part, 2 do redis.call('ZADD', to, part[i + 1], part[i]) end
                redis.call('ZREMRANGEBYRANK', from, first, last)
              else
                local part = redis.call('SRANDMEMBER', from, moved)
                moved = #part
                redis.call('SADD', to, unpack(part))
                redis.call('SREM', from, unpack(part))
              end
            end
            count(id, isUndo and -moved or moved, isUndo and moved or -moved)
            return moved
            """

    /// Counts cancelled tokens, negative for restored ones, and changes `left`. KEYS: see `moveScript`. A campaign without tokens
    /// has ended.
    private static let counting =
        Lua.clock + """
            local function count(id, cancelled, change)
              redis.call('HINCRBY', KEYS[3], 'cancelled', cancelled)
              local left = redis.call('HINCRBY', KEYS[3], 'left', change)
              if left > 0 or redis.call('EXISTS', KEYS[4]) == 1 then
                redis.call('HDEL', KEYS[3], 'ended')
                for i = 3, 5 do redis.call('PERSIST', KEYS[i]) end
                redis.call('ZADD', KEYS[2], redis.call('HGET', KEYS[3], 'created') or 0, id)
              else
                local now = string.format('%.0f', clock())
                redis.call('HSET', KEYS[3], 'ended', now)
                redis.call('ZADD', KEYS[2], '-' .. now, id)
                for i = 3, 5 do redis.call('PEXPIRE', KEYS[i], \(CampaignLaunch.day)) end
              end
            end

            """

    /// Counts jobs of the campaign that `cancel` has removed from the list and its other keys, or has put back there.
    ///
    /// - Parameters:
    ///   - jobs: their number.
    ///   - tokens: how many of them are a `CampaignToken`. The others, which wait for a retry, are not in `left`.
    /// - Returns: whether there is such a campaign.
    public func count(
        _ direction: Direction, jobs: Int, tokens: Int, of id: String, _ client: inout RedisClient
    ) throws(RedisError) -> Bool {
        let sign = direction == .cancel ? 1 : -1
        let touched = [keys.nothing, keys.campaigns, keys.campaign(id), keys.audience(id), keys.cancelledAudience(id)]
        let arguments = [id, String(sign * jobs), String(-sign * tokens)]
        return try client.evaluate(CampaignList.tallyScript, touched, arguments).integer == 1
    }

    /// KEYS: see `moveScript`. ARGV: id, cancelled jobs, change of `left`.
    static let tallyScript =
        counting + """
            if redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
            redis.call('HGET', KEYS[3], 'created')
            clock()
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], 'x', '') redis.call('HDEL', KEYS[1], 'x')
            redis.call('PERSIST', KEYS[1]) redis.call('PEXPIRE', KEYS[1], 1000)
            redis.call('ZADD', KEYS[2], 'XX', 0, '')
            count(ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
            return 1
            """
}
