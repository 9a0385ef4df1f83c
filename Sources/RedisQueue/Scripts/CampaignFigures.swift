/// Adds the outcomes of one batch of settlements to the figures of their campaigns. It follows the batch in the same write, and
/// counts only if the batch was applied, once.
///
/// A campaign of which too many of the last 1,000 outcomes are failures is paused, with the reason. A campaign without tokens
/// has ended: its figures stay for a day.
///
/// Replies 1, 0 if the batch was counted before, or -1 if it was not applied.
struct CampaignFigures: Equatable {
    /// The number of the batch.
    var sequence: UInt64
    var counts: [CampaignCounts]

    /// Reasons that a campaign counts separately.
    private static let mostReasons = 20
    /// A reason is cut after this many bytes.
    private static let longestReason = 64

    /// The keys of this call, in the order of the script.
    func keys(_ keys: Keys) -> [String] {
        [keys.campaigns] + counts.flatMap { [keys.campaign($0.campaign), keys.audience($0.campaign)] }
    }

    /// Behind the number of the batch, for each campaign: id, sent, retried, expired, left, failures, the number of reasons, and
    /// each reason with its number.
    var arguments: Arguments {
        var all = Arguments()
        all.append(sequence)
        for counts in counts {
            all.append(counts.campaign)
            for count in [counts.sent, counts.retried, counts.expired, counts.left, counts.failures, counts.dead.count] {
                all.append(count)
            }
            for (reason, count) in counts.dead.sorted(by: { $0.key < $1.key }) {
                all.append(Array(reason.utf8.prefix(CampaignFigures.longestReason)))
                all.append(count)
            }
        }
        return all
    }

    static let script = Script(
        [.nothing, .workers, .worker, .paused], more: ["campaigns", "campaign"], arguments: ["sequence", "first"],
        Lua.clock + Lua.fence + """
            local sequence = tonumber(ARGV.sequence)
            if sequence > (tonumber(state[2]) or 0) then return -1 end
            if sequence <= (tonumber(redis.call('HGET', KEYS.worker, 'figured') or 0) or 0) then return 0 end
            redis.call('HLEN', KEYS.paused) redis.call('ZCARD', KEYS.campaigns)
            for i = KEY.campaign, #KEYS, 2 do redis.call('HLEN', KEYS[i]) end
            redis.call('EXISTS', KEYS.nothing) redis.call('HKEYS', KEYS.nothing)
            redis.call('HEXISTS', KEYS.paused, '') redis.call('HGET', KEYS.paused, '') redis.call('HDEL', KEYS.paused, '')
            redis.call('DEL', KEYS.nothing)
            -- Each command is tried without an effect: a user who lacks a right counts nothing twice.
            redis.call('HINCRBY', KEYS.nothing, 'x', 0) redis.call('PEXPIRE', KEYS.nothing, 1000)
            redis.call('DEL', KEYS.nothing)
            redis.call('ZADD', KEYS.campaigns, 'XX', 0, '')
            local now, at = math.floor(clock()), ARG.first
            redis.call('HSET', KEYS.worker, 'figured', ARGV.sequence)
            local function add(key, field, by) if by ~= 0 then redis.pcall('HINCRBY', key, field, by) end end
            local function count(key, audience)
              local id, sent, retried, expired, gone = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]),
                tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
              local failed, reasons, dead = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), 0
              at = at + 7
              local first = at
              at = at + 2 * reasons
              if redis.call('EXISTS', key) == 0 then return end
              for i = first, at - 1, 2 do
                dead = dead + ARGV[i + 1]
                local field = 'reason:' .. ARGV[i]
                if redis.call('HEXISTS', key, field) == 0 then
                  local known = 0
                  for _, name in ipairs(redis.call('HKEYS', key)) do
                    if string.sub(name, 1, 7) == 'reason:' then known = known + 1 end
                  end
                  if known >= \(mostReasons) then field = 'reason:other' end
                end
                add(key, field, ARGV[i + 1])
              end
              add(key, 'sent', sent)
              add(key, 'retried', retried)
              add(key, 'expired', expired)
              add(key, 'dead', dead)
              add(key, 'left', -gone)
              local old = redis.call('HMGET', key, 'window', 'stop', 'left', 'ended', 'sent', 'dead', 'expired', 'rated',
                'rateDone')
              local done = (tonumber(old[5]) or 0) + (tonumber(old[6]) or 0) + (tonumber(old[7]) or 0)
              local limit = tonumber(old[2]) or 0
              local values = {'changed', string.format('%.0f', now)}
              local rated = tonumber(old[8])
              if not rated or now - rated >= 2000 then
                local rate = rated and (done - (tonumber(old[9]) or 0)) * 1000 / (now - rated) or 0
                for _, value in ipairs({'rated', string.format('%.0f', now), 'rateDone', string.format('%.0f', done), 'rate',
                  string.format('%.1f', rate)}) do values[#values + 1] = value end
              end
              if limit > 0 and sent + failed > 0 then
                local window = (old[1] or '') .. string.rep('0', math.min(sent, \(Campaign.window)))
                window = string.sub(window .. string.rep('1', math.min(failed, \(Campaign.window))), -\(Campaign.window))
                values[#values + 1], values[#values + 2] = 'window', window
                local failures = select(2, string.gsub(window, '1', ''))
                if failures >= limit and failed > 0 and redis.call('HEXISTS', KEYS.paused, 'campaign:' .. id) == 0 then
                  local reason = string.format('stop_at: %d of the last %d pushes failed', failures, #window)
                  redis.call('HSET', KEYS.paused, 'campaign:' .. id,
                    string.format('{"until": 0, "since": %.0f, "reason": "%s", "by": "gaplessd"}', now, reason))
                end
              end
              redis.call('HSET', key, unpack(values))
              -- Repeated pushes count twice: only a campaign without waiting tokens has ended.
              if (tonumber(old[3]) or 0) <= 0 and not old[4] and redis.call('EXISTS', audience) == 0 then
                -- It needs no brake, and what has its name later none of it.
                local pause = redis.call('HGET', KEYS.paused, 'campaign:' .. id)
                if pause and string.find(pause, '"reason": "stop_at: ', 1, true) then
                  redis.call('HDEL', KEYS.paused, 'campaign:' .. id)
                end
                redis.call('HSET', key, 'ended', string.format('%.0f', now))
                redis.call('ZADD', KEYS.campaigns, 'XX', string.format('%.0f', -now), id)
                redis.call('PEXPIRE', key, \(CampaignLaunch.day))
              end
            end
            for i = KEY.campaign, #KEYS, 2 do pcall(count, KEYS[i], KEYS[i + 1]) end
            return 1
            """)
}
