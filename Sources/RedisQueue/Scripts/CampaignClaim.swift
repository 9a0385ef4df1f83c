/// Moves tokens of a campaign to a new chunk of the worker, as `CampaignToken`s: from the head of a list, the lowest ranks of a
/// sorted set, or any members of a set. The caller reads the list of the chunk with LRANGE, in the same write.
///
/// It takes nothing while the list or the campaign is paused, and with a pace no more than Redis' clock admits: of n tokens over
/// t milliseconds, token k is due k × t / n after the first one. A campaign that is more than 2 s late goes on from there: the
/// end moves, and nothing catches up.
///
/// The reply is that of `Claim`, and the milliseconds until the next claim makes sense: -1 for a paused campaign, and -2 for one
/// that has no tokens, or whose name belongs to another one since: the caller does not know its payload.
enum CampaignClaim {
    /// A longer token is not one: of it, only the beginning is claimed.
    private static let longestToken = 2048
    /// Milliseconds of the pace that may be caught up, and the least time between two claims of a campaign with a pace.
    private static let (mostLate, pause) = (2000, 50)

    /// `jobs` and `following` are the lists of the chunk, and of the chunk with the next number.
    static let script = Script(
        [.nothing, .workers, .worker, .chunks, .stats, .paused],
        more: ["jobs", "following", "campaigns", "campaign", "audience"],
        arguments: ["chunk", "count", "id", "prefix", "created"],
        Lua.clock + Lua.pauses + Lua.fence + """
            local paused, whole = nil, false
            if redis.call('EXISTS', KEYS.paused) == 1 then paused, whole = pauses(KEYS.paused) end
            local function nothing(drained, wait) return {with(paused, drained), 0, 0, 0, 0, wait} end
            if whole then return nothing(0, -1) end
            for i = 2, paused and #paused or 0, 3 do
              if paused[i] == 'campaign:' .. ARGV.id then return nothing(0, -1) end
            end
            if state[3] and redis.call('HEXISTS', KEYS.chunks, state[3]) == 1 then return nothing(0, 100) end
            local figures = redis.call('HMGET', KEYS.campaign, 'kind', 'over', 'begun', 'taken', 'audience', 'left', 'changed',
              'created')
            local kind, over, taken, most = figures[1], tonumber(figures[2]) or 0, tonumber(figures[4]) or 0, tonumber(ARGV.count)
            local size = {list = 'LLEN', set = 'SCARD', zset = 'ZCARD'}
            if not size[kind] or figures[8] ~= ARGV.created then return nothing(1, -2) end
            local now = math.floor(clock())
            local there = redis.call(size[kind], KEYS.audience)
            if there == 0 then
              -- Its figures tell how many tokens are on their way. After a day without an outcome it leaves the others their
              -- places. Tokens that still wait for their app find its job for a month.
              local left, isOld = tonumber(figures[6]) or 0, now - (tonumber(figures[7]) or now) > \(CampaignLaunch.day)
              if left <= 0 or isOld then
                redis.call('DEL', KEYS.nothing)
                redis.pcall('PEXPIRE', KEYS.campaign, left <= 0 and \(CampaignLaunch.day) or \(30 * CampaignLaunch.day))
                redis.pcall('HSET', KEYS.campaign, 'ended', string.format('%.0f', now))
                redis.pcall('ZADD', KEYS.campaigns, 'XX', string.format('%.0f', -now), ARGV.id)
              end
              return nothing(1, -2)
            end
            local begun, wait = tonumber(figures[3]) or now, 0
            local pace = over > 0 and (tonumber(figures[5]) or 0) / over or 0
            if pace > 0 then
              if (now - begun) * pace - taken > \(mostLate) * pace then begun = math.floor(now - taken / pace - \(mostLate)) end
              most = math.min(most, math.floor((now - begun) * pace) + 1 - taken)
              if most < 1 then return nothing(0, math.max(\(pause), math.ceil(begun + taken / pace - now))) end
            end
            most = math.min(most, there)
            local number, following = ARGV.chunk, string.format('%d', ARGV.chunk + 1)
            local used = redis.call('HMGET', KEYS.chunks, number, following)
            if used[1] or used[2] or redis.call('EXISTS', KEYS.jobs, KEYS.following) > 0 then return '\(Lua.Status.taken)' end
            redis.call('DEL', KEYS.nothing)
            -- Tried without an effect: without this right no token could be removed.
            if kind == 'list' then redis.call('LTRIM', KEYS.nothing, 0, 0)
            elseif kind == 'zset' then redis.call('ZREMRANGEBYRANK', KEYS.nothing, 0, 0)
            else redis.call('SREM', KEYS.nothing, '') end
            local function read(first, last)
              if kind == 'list' then return redis.call('LRANGE', KEYS.audience, first, last) end
              if kind == 'zset' then return redis.call('ZRANGE', KEYS.audience, first, last) end
              return redis.call('SRANDMEMBER', KEYS.audience, most)
            end
            -- In pieces, so that a few texts of megabytes do not become gigabytes.
            local elements, count, bytes, prefix, part = {}, 0, 0, ARGV.prefix, nil
            while count < most and bytes < 262144 do
              part = read(count, math.min(most, count + 50) - 1)
              for i = 1, #part do
                local token = part[i]
                bytes = bytes + #token
                if #token > \(longestToken) then token = string.sub(token, 1, \(longestToken)) end
                elements[count + i] = prefix .. token
              end
              count = count + #part
              if kind == 'set' or #part == 0 then break end
            end
            most = count
            local function move()
              redis.call('RPUSH', KEYS.jobs, unpack(elements))
              redis.call('HSET', KEYS.chunks, number, '0:' .. string.rep('1', most))
              if kind == 'list' then
                redis.call('LTRIM', KEYS.audience, most, -1)
              elseif kind == 'zset' then
                redis.call('ZREMRANGEBYRANK', KEYS.audience, 0, most - 1)
              else
                redis.call('SREM', KEYS.audience, unpack(part))
              end
            end
            local isMoved, fault = pcall(move)
            if not isMoved then
              redis.pcall('HDEL', KEYS.chunks, number)
              redis.pcall('DEL', KEYS.jobs)
              error(fault, 0)
            end
            redis.pcall('HSET', KEYS.campaign, 'begun', string.format('%.0f', begun), 'taken',
              string.format('%.0f', taken + most))
            redis.pcall('HINCRBY', KEYS.stats, 'claimed', most)
            redis.pcall('HINCRBY', KEYS.stats, 'aside_claimed', most)
            redis.pcall('HINCRBY', KEYS.worker, 'claimed', most)
            if pace > 0 then wait = math.max(\(pause), math.ceil(begun + (taken + most) / pace - now)) end
            return {with(paused, most == there and 1 or 0), most, 0, 0, 0, wait}
            """)
}
