internal import Platform

/// Begins a campaign: gives the key with the tokens a name of its own and records the campaign. The job is settled by its next
/// settlement; if this worker dies before, the next claim of the job finds its campaign by the digest.
///
/// Replies `BEGUN` and the number of tokens, `AGAIN` for the job of a campaign that has begun, `MISSING`, `TYPE` and a type,
/// `IN USE` if the name belongs to another campaign that has not ended, or `GAP` if Redis lacks the launch `after`.
struct CampaignLaunch: Equatable {
    var claim: ClaimedJob
    var order: CampaignOrder
    /// Campaigns of the same unnamed job that have not ended.
    var attempt = 0
    /// Redis keeps the number of the last launch of this worker. Settlements name the last one that it must have: Redis may
    /// return to a state before the launch, and the settlement of the job would then leave the tokens without a job.
    var number: UInt64 = 0
    /// The number of the last launch that Redis must have before this one.
    var after: UInt64 = 0

    private static let mostAttempts = 100

    var id: String {
        let digest = SHA1.hexadecimal(of: String(decoding: claim.bytes, as: UTF8.self))
        return order.name ?? "c" + digest.prefix(12) + (attempt == 0 ? "" : "-\(attempt + 1)")
    }

    /// The launch under another name, after `IN USE`; `nil` for a job that names its campaign.
    var next: CampaignLaunch? {
        if order.name != nil || attempt >= CampaignLaunch.mostAttempts { return nil }
        return CampaignLaunch(claim: claim, order: order, attempt: attempt + 1)
    }

    /// `claim` is the place of the job. A launch that is sent again finds its own campaign by it, also if the campaign has ended
    /// and the source has the tokens of another one.
    enum Argument: String, CaseIterable { case id, digest, claim, source, head, tail, over, share, launch, after }

    func write(_ argument: Argument, to out: inout [UInt8]) {
        switch argument {
        case .id: out.appendArgument(id)
        case .digest: out.appendArgument(SHA1.hexadecimal(of: String(decoding: claim.bytes, as: UTF8.self)))
        case .claim: out.appendArgument("\(claim.id.chunk):\(claim.id.place)")
        case .source: out.appendArgument(order.source)
        case .head: out.appendArgument(order.head)
        case .tail: out.appendArgument(order.tail)
        case .over: out.appendArgument(order.over.map { max(1, Int($0 / .milliseconds(1))) } ?? 0)
        case .share: out.appendArgument("\(order.stopAt)")
        case .launch: out.appendArgument(number)
        case .after: out.appendArgument(after)
        }
    }

    /// The keys of this call, in the order of the script.
    func keys(_ keys: Keys) -> [String] {
        [keys.campaigns, keys.campaign(id), keys.audience(id), keys.cancelledAudience(id), order.source]
    }

    /// Campaigns that ended more than a day ago leave the sorted set: see `Keys.campaigns`. An audience that is shorter than the
    /// window stops at the share of its tokens.
    static let script = Script(
        [.nothing, .workers, .worker, .stats], more: ["campaigns", "campaign", "audience", "cancelled", "source"],
        arguments: Argument.allCases.map(\.rawValue),
        Lua.clock + Lua.fence + """
            if tonumber(state[5] or 0) < tonumber(ARGV.after) then return '\(Lua.Status.gap)' end
            local function begun(reply)
              redis.call('HSET', KEYS.worker, 'launched', ARGV.launch)
              return reply
            end
            local kind = redis.call('TYPE', KEYS.source).ok
            local known = redis.call('HMGET', KEYS.campaign, 'digest', 'state', 'ended', 'by')
            local isOurs, by = known[1] == ARGV.digest, ARGV.worker .. ':' .. ARGV.claim
            if isOurs and known[4] == by and known[2] ~= 'launching' then return begun({'AGAIN'}) end
            if kind == 'none' and isOurs and known[2] ~= 'launching' then return begun({'AGAIN'}) end
            if kind == 'none' then return {'MISSING'} end
            if known[1] and not known[3] and not (isOurs and known[2] == 'launching') then return {'IN USE'} end
            if redis.call('EXISTS', KEYS.audience, KEYS.cancelled) > 0 then return {'IN USE'} end
            local size = {list = 'LLEN', set = 'SCARD', zset = 'ZCARD'}
            if not size[kind] then return {'TYPE', kind} end
            local now, count = math.floor(clock()), redis.call(size[kind], KEYS.source)
            local function failures(of) return math.max(0, math.ceil(tonumber(ARGV.share) * of - 1e-9)) end
            local stop = math.max(failures(math.min(count, \(Campaign.window))),
              math.min(failures(\(Campaign.window)), \(Campaign.fewestFailures)))
            redis.call('ZCARD', KEYS.campaigns)
            redis.call('DEL', KEYS.nothing)
            -- Each command is tried without an effect: a user who lacks a right repeats no step.
            redis.call('RPUSH', KEYS.nothing, '') redis.call('RENAMENX', KEYS.nothing, KEYS.nothing)
            redis.call('PERSIST', KEYS.nothing) redis.call('DEL', KEYS.nothing)
            redis.call('HSET', KEYS.worker, 'number', ARGV.number) redis.call('ZADD', KEYS.campaigns, 'XX', 0, '')
            redis.call('ZREMRANGEBYSCORE', KEYS.campaigns, string.format('(%.0f', \(day) - now), '(0')
            redis.call('DEL', KEYS.campaign)
            redis.call('HSET', KEYS.campaign, 'head', ARGV.head, 'tail', ARGV.tail, 'digest', ARGV.digest, 'by', by,
              'source', ARGV.source, 'kind', kind, 'state', 'launching', 'audience', count,
              'created', string.format('%.0f', now), 'over', ARGV.over,
              'stop_at', ARGV.share, 'stop', string.format('%.0f', stop), 'left', count)
            redis.call('RENAMENX', KEYS.source, KEYS.audience)
            -- The producer may have limited the time for which it keeps the key.
            redis.call('PERSIST', KEYS.audience)
            redis.call('HSET', KEYS.campaign, 'state', 'running')
            redis.call('ZADD', KEYS.campaigns, string.format('%.0f', now), ARGV.id)
            redis.pcall('HINCRBY', KEYS.stats, 'audiences', count)
            return begun({'BEGUN', count})
            """)

    /// Records a campaign again whose hash was lost, without tokens: its held tokens are put back.
    static let keepScript = Script(
        [.nothing], more: ["campaigns", "campaign"], arguments: ["id", "head", "tail", "stop"], isFenced: false,
        Lua.clock + """
            redis.call('ZCARD', KEYS.campaigns)
            if redis.call('EXISTS', KEYS.campaign) == 1 then return 0 end
            local now = string.format('%.0f', clock())
            redis.call('DEL', KEYS.nothing)
            redis.call('ZADD', KEYS.campaigns, 'XX', 0, '')
            redis.call('HSET', KEYS.campaign, 'head', ARGV.head, 'tail', ARGV.tail, 'kind', 'list', 'state', 'running',
              'audience', 0, 'created', now, 'changed', now, 'over', 0, 'stop', ARGV.stop, 'left', 1)
            redis.call('ZADD', KEYS.campaigns, now, ARGV.id)
            return 1
            """)

    static let day = Int(Campaign.afterlife / .milliseconds(1))

    func start(_ items: [RedisReply]) -> CampaignStart? {
        switch items.first?.text {
        case "BEGUN": items.count == 2 ? items[1].count.map { .begun(id: id, tokens: $0) } : nil
        case "AGAIN": .begun(id: id, tokens: nil)
        case "MISSING": .refused(.missing)
        case "TYPE": items.count == 2 ? items[1].text.map { .refused(.wrongType($0)) } : nil
        case "IN USE": .refused(.nameInUse(id))
        default: nil
        }
    }
}
