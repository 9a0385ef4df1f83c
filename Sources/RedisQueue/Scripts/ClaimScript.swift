extension Scripts {
    /// Moves jobs to the worker's in-flight hash: from `recovered:1`, from `recovered:2`, then either one from `recovered:3`
    /// when the worker holds nothing else, or from Q.
    ///
    /// KEYS: nothing, workers, worker:W, inflight:W, stats, recovered:1, :2, :3, Q.
    /// ARGV: W, number, first id, most jobs, most bytes (one job may exceed them), most from recovered:2, and for a claim that rides behind a
    /// wait the last settlement that was confirmed when it began: what W has given back since is not for W.
    ///
    /// It reads a list piece by piece, so that a few jobs of megabytes do not become gigabytes here. What runs for each job is kept
    /// short: 250 jobs cost Redis 1.3 us each instead of 1.5, most of it Lua's hashing of every byte that it sees.
    ///
    /// Answers drained (1: Q has no more), jobs from recovered:1, :2, :3, how urgent the recovered are, and the jobs, whose
    /// ids follow each other.
    package static let claim = Script(
        waiting + fence + """
            if state[3] and redis.call('HEXISTS', KEYS[4], state[3]) == 1 then return {0, 0, 0, 0, 0} end
            if ARGV[7] and state[4] and tonumber(state[4]) > tonumber(ARGV[7]) then return {0, 0, 0, 0, 0} end
            redis.call('LLEN', KEYS[9])
            local held = redis.call('HLEN', KEYS[4])
            redis.call('DEL', KEYS[1])
            local first, room, taken = tonumber(ARGV[3]), tonumber(ARGV[5]), 0
            local out = {0, 0, 0, 0, 0}
            local format = string.format
            local function take(list, suffix, limit)
              local at = 0
              while at < limit do
                local asked = math.min(at == 0 and 10 or 40, limit - at)
                local part = redis.call('LRANGE', list, at, at + asked - 1)
                local set, count = {}, #part
                for i = 1, count do
                  local job = part[i]
                  room = room - #job
                  if room < 0 and taken > 0 then count = i - 1 break end
                  set[2 * i - 1] = format('%d', first + taken) .. suffix
                  set[2 * i] = job
                  taken = taken + 1
                  out[5 + taken] = job
                end
                if count > 0 then redis.call('HSET', KEYS[4], unpack(set, 1, 2 * count)) end
                at = at + count
                if count < #part then return at, 0 end
                if count < asked then return at, 1 end
              end
              return at, 0
            end
            local function trim(list, suffix, from, count)
              if count == 0 then return end
              local done = redis.pcall('LTRIM', list, count, -1)
              if type(done) == 'table' and done.err then
                for i = from, from + count - 1 do
                  redis.call('HDEL', KEYS[4], string.format('%d', first + i) .. suffix)
                end
                error(done.err)
              end
            end
            local limit = tonumber(ARGV[4])
            if redis.call('EXISTS', KEYS[6], KEYS[7], KEYS[8]) > 0 then
              out[2] = take(KEYS[6], ':1', limit)
              trim(KEYS[6], ':1', 0, out[2])
              out[3] = take(KEYS[7], ':2', math.min(limit - out[2], tonumber(ARGV[6])))
              trim(KEYS[7], ':2', out[2], out[3])
              if held == 0 and taken == 0 then
                out[4] = take(KEYS[8], ':3', math.min(limit, 1))
                if out[4] == 1 then
                  redis.call('HSET', KEYS[3], 'alone', string.format('%d', first) .. ':3')
                  trim(KEYS[8], ':3', 0, 1)
                end
              end
              out[5] = waiting(KEYS[6], KEYS[7], KEYS[8])
            end
            if out[4] == 0 then
              local before = taken
              local count, drained = take(KEYS[9], '', limit - before)
              trim(KEYS[9], '', before, count)
              out[1] = drained
            end
            if taken > 0 then
              redis.pcall('HINCRBY', KEYS[5], 'claimed', taken)
              redis.pcall('HINCRBY', KEYS[3], 'claimed', taken)
            end
            return out
            """)
}
