extension Scripts {
    /// Applies a batch of settlements, each only if its job is still this worker's: nothing happens twice, and nothing
    /// happens to a job that others have.
    ///
    /// Batches are numbered one by one. One that was applied before is skipped, so that counters count it once; one that comes too
    /// early (its predecessor met NOSCRIPT) answers `GAP` and is to be sent again.
    ///
    /// KEYS: nothing, workers, worker:W, inflight:W, stats, delayed, dead, feedback, Q, results or nothing.
    /// ARGV: W, number, sequence, guard (1, or 0 for `at_most_once`, which keeps no hash), most dead letters (0: any),
    /// most results, resent, maybe_duplicate, n, n fields of plain acknowledgements, then steps, each of:
    /// kind, field, feedback record or '', count of results, results, and by kind
    ///
    ///     a  nothing                acknowledged
    ///     r  due, job               retry; due is a time in ms, or +ms from now
    ///     p  due, job               not_before
    ///     d  record                 dead letter
    ///     e  record                 dead letter of an expired job
    ///     h  job (at_most_once)     back to the head of Q; steps of this kind come with the last claimed first
    ///     t  job (at_most_once)     to the tail of Q
    ///     u  job                    replaced by this job at the head of Q; ordered as h
    ///     v  job                    replaced by this job at the tail of Q
    ///     s  k, k jobs              replaced by its parts at the head of Q
    ///
    /// Answers 1 (0: skipped), how many dead letters were trimmed, when `delayed` is due (-2: not looked at), and how many dead
    /// letters there are (0: none was added, or there is a maximum).
    package static let settle = Script(
        """
        if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 'FENCED' end
        local state = redis.call('HMGET', KEYS[3], 'number', 'settled')
        if state[1] ~= ARGV[2] then return 'STALE' end
        local sequence, settled = tonumber(ARGV[3]), tonumber(state[2])
        if sequence <= settled then return {0, 0, -2, 0} end
        if sequence > settled + 1 then return 'GAP' end
        local guard = ARGV[4] == '1'
        local n = tonumber(ARGV[9])
        local at = 10 + n
        if ARGV[at] then
          redis.call('ZCARD', KEYS[6]) redis.call('LLEN', KEYS[7]) redis.call('LLEN', KEYS[8]) redis.call('LLEN', KEYS[9])
          if KEYS[10] ~= KEYS[1] then redis.call('XLEN', KEYS[10]) end
        end
        redis.call('HLEN', KEYS[5])
        redis.call('DEL', KEYS[1])

        local count = {a = 0, r = 0, p = 0, d = 0, e = 0, h = 0}
        local maybe, now = tonumber(ARGV[8]), nil
        if n > 0 then
          count.a = guard and redis.call('HDEL', KEYS[4], unpack(ARGV, 10, at - 1)) or n
          maybe = maybe + n - count.a
        end
        local function delay(due, field, job)
          if string.sub(due, 1, 1) == '+' then
            if not now then
              local time = redis.call('TIME')
              now = time[1] * 1000 + math.floor(time[2] / 1000)
            end
            due = string.format('%d', now + tonumber(due))
          end
          redis.call('ZADD', KEYS[6], due, ARGV[1] .. ':' .. field .. '|' .. job)
        end
        local delays = false
        while ARGV[at] do
          local kind, field, note = ARGV[at], ARGV[at + 1], ARGV[at + 2]
          local extras = tonumber(ARGV[at + 3])
          local first = at + 4
          at = first + extras
          local ours = not guard
          local job
          if guard then
            if kind == 'h' or kind == 't' then
              job = redis.call('HGET', KEYS[4], field)
              ours = job and true
            else
              ours = redis.call('HEXISTS', KEYS[4], field) == 1
            end
          end
          local term = kind
          if kind == 'r' or kind == 'p' then
            if ours then delay(ARGV[at], field, ARGV[at + 1]) delays = true end
            at = at + 2
          elseif kind == 'd' or kind == 'e' then
            if ours then redis.call('RPUSH', KEYS[7], ARGV[at]) end
            at = at + 1
          elseif kind == 'h' or kind == 't' then
            if ours then redis.call(kind == 'h' and 'LPUSH' or 'RPUSH', KEYS[9], job or ARGV[at]) end
            at, term = at + 1, 'h'
          elseif kind == 'u' or kind == 'v' then
            if ours then redis.call(kind == 'u' and 'LPUSH' or 'RPUSH', KEYS[9], ARGV[at]) end
            at, term = at + 1, 'h'
          elseif kind == 's' then
            local parts = tonumber(ARGV[at])
            if ours then
              for i = at + parts, at + 1, -1 do redis.call('LPUSH', KEYS[9], ARGV[i]) end
            end
            at, term = at + parts + 1, 'h'
          end
          if ours then
            if note ~= '' then redis.call('RPUSH', KEYS[8], note) end
            if extras > 0 then
              redis.call('XADD', KEYS[10], 'MAXLEN', ARGV[6], '*', unpack(ARGV, first, first + extras - 1))
            end
            if guard then redis.call('HDEL', KEYS[4], field) end
            count[term] = count[term] + 1
          elseif kind == 'a' or kind == 'r' or kind == 'd' or kind == 'e' then
            maybe = maybe + 1
          end
        end

        local trimmed, letters, most = 0, 0, tonumber(ARGV[5])
        if count.d + count.e > 0 then
          letters = redis.call('LLEN', KEYS[7])
          if most > 0 then
            trimmed, letters = math.max(0, letters - most), 0
            if trimmed > 0 then redis.call('LTRIM', KEYS[7], -most, -1) end
          end
        end
        redis.call('HSET', KEYS[3], 'settled', ARGV[3])
        if count.h > 0 then redis.call('HSET', KEYS[3], 'returned', ARGV[3]) end
        local function add(key, name, by)
          if by > 0 then redis.pcall('HINCRBY', key, name, by) end
        end
        if not guard then add(KEYS[5], 'claimed', count.a + count.r + count.p + count.d + count.e + count.h) end
        add(KEYS[5], 'sent', count.a)
        add(KEYS[3], 'sent', count.a)
        add(KEYS[5], 'retried', count.r)
        add(KEYS[5], 'postponed', count.p)
        add(KEYS[5], 'dead', count.d)
        add(KEYS[5], 'expired', count.e)
        add(KEYS[5], 'released', count.h)
        add(KEYS[5], 'resent', tonumber(ARGV[7]))
        add(KEYS[5], 'maybe_duplicate', maybe)
        add(KEYS[5], 'trimmed', trimmed)
        if not delays then return {1, trimmed, -2, letters} end
        local head = redis.call('ZRANGE', KEYS[6], 0, 0, 'WITHSCORES')
        if #head == 0 then return {1, trimmed, -1, letters} end
        local time = redis.call('TIME')
        local due = math.min(3600000, math.max(0, math.ceil(tonumber(head[2]) - (time[1] * 1000 + time[2] / 1000))))
        return {1, trimmed, due, letters}
        """)
}
