/// The scripts that run for every job.
extension Scripts {
    /// Moves jobs to the worker's in-flight hash: from `recovered:1`, from `recovered:2`, then either one from `recovered:3` when
    /// the worker holds nothing else, or from Q.
    ///
    /// KEYS: nothing, workers, worker:W, inflight:W, stats, recovered:1, :2, :3, Q, paused. ARGV: W, number, first id, most jobs,
    /// most bytes (one job may exceed them), most from recovered:2, and for a piggybacked claim the last settlement that was
    /// confirmed when its wait began: W does not claim what it has given back since.
    ///
    /// It reads a list in pieces, so that a few jobs of megabytes do not become gigabytes. The code that runs for each job is
    /// short: 250 jobs cost Redis 1.3 us each instead of 1.5, most of it Lua's hashing of every byte.
    ///
    /// It takes nothing while the whole list is paused. Of a job of more than 24 MiB it replies only the size and the beginning.
    ///
    /// Replies drained (1: Q has no more; with the pauses, if any), the numbers of jobs from recovered:1, :2, :3, the kind of the
    /// recovered jobs, and the jobs, whose ids follow each other.
    package static let claim = Script(
        clock + pauses + waiting + abridged + fence + """
            local paused, whole = pauses(KEYS[10])
            if whole then return {paused, 0, 0, 0, 0} end
            if state[3] and redis.call('HEXISTS', KEYS[4], state[3]) == 1 then return {with(paused, 0), 0, 0, 0, 0} end
            if ARGV[7] and state[4] and tonumber(state[4]) > tonumber(ARGV[7]) then return {with(paused, 0), 0, 0, 0, 0} end
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
                  out[5 + taken] = room < 0 and abridged(job) or job
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
            out[1] = with(paused, out[1])
            return out
            """)

    /// Applies a batch of settlements, each only if this worker still holds its job: nothing happens twice, or to a job that
    /// another worker has.
    ///
    /// Batches are numbered one by one. A batch that was applied before is skipped, so that counters count it once. A batch that
    /// is too early (its predecessor met NOSCRIPT) gets the reply `GAP` and is sent again.
    ///
    /// KEYS: nothing, workers, worker:W, inflight:W, stats, delayed, dead, feedback, Q, results or nothing, large. ARGV: W,
    /// number, sequence, guard (1, or 0 for `at_most_once`, which keeps no hash), most dead letters (0: any), most feedback
    /// entries (0: any), most results, resent, maybe_duplicate, n, n fields of plain acknowledgements, then steps, each of: kind,
    /// field, feedback record or '', count of results, results, and by kind
    ///
    ///     a  nothing                acknowledged
    ///     r  due, job               retry; due is a time in ms, or +ms from now
    ///     p  due, job               not_before
    ///     d  record                 dead letter
    ///     e  record                 dead letter of an expired job
    ///     D  record, field, job     dead letter, with the job (given in at_most_once) in the hash of large jobs; E as e
    ///     h  job (at_most_once)     back to the head of Q; steps of this kind have the last claimed first
    ///     t  job (at_most_once)     to the tail of Q
    ///     u  job                    replaced by this job at the head of Q; ordered as h
    ///     v  job                    replaced by this job at the tail of Q
    ///     s  k, k jobs              replaced by its parts at the head of Q (at_most_once)
    ///     c  k, text, text, k times first and last byte
    ///                               replaced by k parts of it at the head of Q, each between the two texts
    ///
    /// Replies 1 (0: skipped), the number of trimmed dead letters, when `delayed` is due (-2: not read), the number of dead
    /// letters (0: none was added, or there is a maximum), and the same two numbers for feedback.
    package static let settle = Script(
        clock + due + fence + """
            local sequence, settled = tonumber(ARGV[3]), tonumber(state[2])
            if sequence <= settled then return {0, 0, -2, 0, 0, 0} end
            if sequence > settled + 1 then return 'GAP' end
            local guard = ARGV[4] == '1'
            local n = tonumber(ARGV[10])
            local at = 11 + n
            if ARGV[at] then
              redis.call('ZCARD', KEYS[6]) redis.call('LLEN', KEYS[7]) redis.call('LLEN', KEYS[8]) redis.call('LLEN', KEYS[9])
              redis.call('HLEN', KEYS[11])
              if KEYS[10] ~= KEYS[1] then redis.call('XLEN', KEYS[10]) end
            end
            redis.call('HLEN', KEYS[5])
            redis.call('DEL', KEYS[1])

            local count = {a = 0, r = 0, p = 0, d = 0, e = 0, h = 0}
            local maybe, now = tonumber(ARGV[9]), nil
            if n > 0 then
              count.a = guard and redis.call('HDEL', KEYS[4], unpack(ARGV, 11, at - 1)) or n
              maybe = maybe + n - count.a
            end
            local function delay(at, field, job)
              if string.sub(at, 1, 1) == '+' then
                now = now or math.floor(clock())
                at = string.format('%d', now + tonumber(at))
              end
              redis.call('ZADD', KEYS[6], at, ARGV[1] .. ':' .. field .. '|' .. job)
            end
            local delays, notes = false, 0
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
              elseif kind == 'D' or kind == 'E' then
                if ours then
                  redis.call('HSET', KEYS[11], ARGV[at + 1], guard and redis.call('HGET', KEYS[4], field) or ARGV[at + 2])
                  redis.call('RPUSH', KEYS[7], ARGV[at])
                end
                at, term = at + 3, string.lower(kind)
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
              elseif kind == 'c' then
                local last = at + 2 + 2 * tonumber(ARGV[at])
                if ours then
                  local whole = redis.call('HGET', KEYS[4], field)
                  for i = last, at + 4, -2 do
                    redis.call('LPUSH', KEYS[9], ARGV[at + 1] .. string.sub(whole, ARGV[i - 1], ARGV[i]) .. ARGV[at + 2])
                  end
                end
                at, term = last + 1, 'h'
              end
              if ours then
                if note ~= '' then
                  redis.call('RPUSH', KEYS[8], note)
                  notes = notes + 1
                end
                if extras > 0 then
                  redis.call('XADD', KEYS[10], 'MAXLEN', ARGV[7], '*', unpack(ARGV, first, first + extras - 1))
                end
                if guard then redis.call('HDEL', KEYS[4], field) end
                count[term] = count[term] + 1
              elseif term == 'a' or term == 'r' or term == 'd' or term == 'e' then
                maybe = maybe + 1
              end
            end

            -- Drops the oldest elements. Returns their number, and the length of a list without a maximum.
            local function bound(list, added, most)
              if added == 0 then return 0, 0 end
              local length = redis.call('LLEN', list)
              if most == 0 then return 0, length end
              if length <= most then return 0, 0 end
              local hasLarge = list == KEYS[7] and redis.call('EXISTS', KEYS[11]) == 1
              for i = 0, hasLarge and length - most - 1 or -1 do
                local stored = string.match(redis.call('LRANGE', list, i, i)[1], ', "job_field": "([^"\\\\]+)"')
                if stored then redis.call('HDEL', KEYS[11], stored) end
              end
              redis.call('LTRIM', list, -most, -1)
              return length - most, 0
            end
            local trimmed, letters = bound(KEYS[7], count.d + count.e, tonumber(ARGV[5]))
            local dropped, entries = bound(KEYS[8], notes, tonumber(ARGV[6]))
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
            add(KEYS[5], 'resent', tonumber(ARGV[8]))
            add(KEYS[5], 'maybe_duplicate', maybe)
            add(KEYS[5], 'trimmed', trimmed + dropped)
            return {1, trimmed, delays and due(KEYS[6]) or -2, letters, dropped, entries}
            """)
}
