/// The scripts that run for every job.
extension Scripts {
    /// Moves jobs to a new chunk of the worker: from `recovered:1`, from `recovered:2`, one from `recovered:3` if the worker
    /// holds nothing else, or from Q. The caller reads the list of the chunk with LRANGE, in the same write.
    ///
    /// KEYS: nothing, workers, worker:W, chunks:W, stats, recovered:1, :2, :3, Q, paused. ARGV: W, number, number of the chunk,
    /// most jobs, most bytes (one job may exceed them), most from recovered:2, and for a piggybacked claim the last settlement
    /// that was confirmed when its wait began: W does not claim what it has given back since, because that would change the
    /// order.
    ///
    /// SORT copies the jobs, and no job passes through Lua. Redis estimates the bytes of a list by its first nodes of 8 KiB. The
    /// script asks for the nodes of at least as many jobs as it takes: otherwise SORT would also copy large jobs that are behind
    /// small ones. Redis knows the bytes of the short list of a chunk. Where this user may not run SORT or MEMORY, the script
    /// copies the jobs itself. A job of more than 24 MiB goes to the chunk with the next number, which the caller does not read.
    ///
    /// It takes nothing while the whole list is paused.
    ///
    /// With asides as KEYS[11], Q is the side list of an app, and recovered:1 to :3 are nothing.
    ///
    /// Replies drained (1: Q has no more; with the pauses, if any), the number of jobs, the number of crashes at which they were
    /// in flight, 1 for a job that is too large (and 2 more where the script has copied the jobs), and the kind of the recovered
    /// jobs.
    package static let claim = Script(
        clock + pauses + waiting + noted + fence + """
            local paused, whole, hasRecovered = nil, false, false
            if redis.call('EXISTS', KEYS[6], KEYS[7], KEYS[8], KEYS[10]) > 0 then
              paused, whole = pauses(KEYS[10])
              if whole then return {paused, 0, 0, 0, 0} end
              hasRecovered = redis.call('EXISTS', KEYS[6], KEYS[7], KEYS[8]) > 0
            end
            if state[3] and redis.call('HEXISTS', KEYS[4], state[3]) == 1 then return {with(paused, 0), 0, 0, 0, 0} end
            if ARGV[7] and tonumber(state[4] or 0) > tonumber(ARGV[7]) then return {with(paused, 0), 0, 0, 0, 0} end
            local list, level, most, room = KEYS[9], 0, tonumber(ARGV[4]), tonumber(ARGV[5])
            if hasRecovered then
              local held, second = redis.call('HLEN', KEYS[4]), tonumber(ARGV[6])
              if redis.call('EXISTS', KEYS[6]) == 1 then
                list, level = KEYS[6], 1
              elseif second > 0 and redis.call('EXISTS', KEYS[7]) == 1 then
                list, level, most = KEYS[7], 2, math.min(most, second)
              elseif held == 0 and redis.call('EXISTS', KEYS[8]) == 1 then
                list, level, most = KEYS[8], 3, 1
              end
            end
            local length = redis.call('LLEN', list)
            if length == 0 then
              if KEYS[11] then noted(KEYS[11], list) end
              return {with(paused, 1), 0, 0, 0, hasRecovered and waiting(KEYS[6], KEYS[7], KEYS[8]) or 0}
            end
            most = math.min(most, length)
            redis.call('DEL', KEYS[1])
            local number, flags = ARGV[3], 0
            local chunk = KEYS[4] .. ':' .. number
            local function enlarge()
              number, flags = string.format('%d', number + 1), 1
              chunk = KEYS[4] .. ':' .. number
            end
            local function bytes(key, samples) return redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', samples) end
            local function sort() return redis.pcall('SORT', list, 'BY', 'nosort', 'LIMIT', 0, most, 'STORE', chunk) end
            local function isCopied()
              local size = bytes(list, 20)
              if type(size) ~= 'number' then return false end
              if size * most > 20 * 8192 * length then size = bytes(list, most) end
              most = math.max(1, math.min(most, math.floor(2 * room * length / size)))
              if type(sort()) ~= 'number' then return false end
              size = bytes(chunk, 0)
              while size > room and most > 1 do
                most = math.max(1, math.min(most - 1, math.floor(most * room / size)))
                redis.call('LTRIM', chunk, 0, most - 1)
                size = bytes(chunk, 0)
              end
              if size > \(ClaimedJob.mostBytes) then
                redis.call('DEL', chunk)
                enlarge()
                sort()
              end
              return true
            end
            -- In pieces, so that a few jobs of megabytes do not become gigabytes.
            local function copy()
              local count, size = 0, 0
              while count < most do
                local last = math.min(most, count == 0 and 10 or count + 40) - 1
                for _, job in ipairs(redis.call('LRANGE', list, count, last)) do
                  size = size + #job
                  if size > room and count > 0 then return count end
                  if size > \(ClaimedJob.mostBytes) then enlarge() end
                  redis.call('RPUSH', chunk, job)
                  count = count + 1
                end
              end
              return most
            end
            if not isCopied() then
              most = copy()
              flags = flags + 2
            end
            local function try(...)
              local done = redis.pcall(...)
              if type(done) == 'table' and done.err then
                redis.pcall('HDEL', KEYS[4], number)
                redis.pcall('DEL', chunk)
                error(done.err)
              end
            end
            try('HSET', KEYS[4], number, level .. ':' .. string.rep('1', most))
            if level == 3 then try('HSET', KEYS[3], 'alone', number) end
            try('LTRIM', list, most, -1)
            if KEYS[11] then
              noted(KEYS[11], list)
              redis.pcall('HINCRBY', KEYS[5], 'aside_claimed', most)
            end
            redis.pcall('HINCRBY', KEYS[5], 'claimed', most)
            redis.pcall('HINCRBY', KEYS[3], 'claimed', most)
            local drained = level == 0 and most == length and 1 or 0
            return {with(paused, drained), most, level, flags, hasRecovered and waiting(KEYS[6], KEYS[7], KEYS[8]) or 0}
            """)

    /// Applies a batch of settlements, each only if this worker still holds its job: nothing happens twice, or to a job that
    /// another worker has.
    ///
    /// Batches are numbered one by one. A batch that was applied before is skipped, so that counters count it once. A batch that
    /// is too early (its predecessor met NOSCRIPT) gets the reply `GAP` and is sent again.
    ///
    /// KEYS: nothing, workers, worker:W, chunks:W, stats, delayed, dead, feedback, Q, results or nothing, large, and last of all
    /// the side lists of the batch, if it has any, and asides. ARGV: W,
    /// number, sequence, guard (1, or 0 for `at_most_once`, which keeps only suspects), most dead letters (0: any), most feedback
    /// entries (0: any), most results, resent, maybe_duplicate, n, then n times a chunk: its number, its entry after the batch
    /// ('' when no job of it is left, '-' when Redis keeps none), and the number of plain acknowledgements in it. Then steps,
    /// each of: kind, number of the chunk, position, feedback record or '', count of results, results, for a kind from h to c in
    /// upper case the number of a side list that takes the place of Q, and by kind. In front of the steps: x and the number of
    /// side lists, if there are any.
    ///
    ///     a  nothing                acknowledged
    ///     r  due, job               retry; due is a time in ms, or +ms from now
    ///     p  due, job               not_before; a due time that has passed becomes the next second: the worker's clock is behind
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
        clock + due + noted + fence + """
            local sequence, settled = tonumber(ARGV[3]), tonumber(state[2])
            if sequence <= settled then return {0, 0, -2, 0, 0, 0} end
            if sequence > settled + 1 then return 'GAP' end
            local guard = ARGV[4] == '1'
            local n = tonumber(ARGV[10])
            local at, sides = 11 + 3 * n, 0
            if ARGV[at] == 'x' then at, sides = at + 2, tonumber(ARGV[at + 1]) end
            local numbers, known, kept = {}, {}, {}
            for i = 1, n do
              numbers[i] = ARGV[8 + 3 * i]
              kept[numbers[i]] = ARGV[9 + 3 * i] ~= '-'
            end
            if n > 0 then known = redis.call('HMGET', KEYS[4], unpack(numbers)) end
            if ARGV[at] then
              redis.call('ZCARD', KEYS[6]) redis.call('LLEN', KEYS[7]) redis.call('LLEN', KEYS[8]) redis.call('LLEN', KEYS[9])
              redis.call('HLEN', KEYS[11])
              if KEYS[10] ~= KEYS[1] then redis.call('XLEN', KEYS[10]) end
            end
            for i = #KEYS - sides, #KEYS - 1 do redis.call('LLEN', KEYS[i]) end
            if sides > 0 then redis.call('HLEN', KEYS[#KEYS]) end
            redis.call('HLEN', KEYS[5])
            redis.call('DEL', KEYS[1])
            if ARGV[at] then
              -- Each command is tried without an effect: a user who lacks a right repeats no step.
              redis.call('RPUSH', KEYS[1], '') redis.call('LPUSH', KEYS[1], '')
              if KEYS[10] ~= KEYS[1] then
                redis.call('DEL', KEYS[1])
                redis.call('XADD', KEYS[1], '*', '', '')
              end
              redis.call('DEL', KEYS[1])
              redis.call('ZADD', KEYS[6], 'XX', 0, '') redis.call('HDEL', KEYS[4], '')
              redis.call('HSET', KEYS[3], 'settled', state[2])
            end

            local count = {a = 0, r = 0, p = 0, d = 0, e = 0, h = 0}
            local maybe, now, held, new = tonumber(ARGV[9]), nil, {}, 0
            for i = 1, n do
              local number, acknowledged = numbers[i], tonumber(ARGV[10 + 3 * i])
              if kept[number] then held[number] = known[i] else held[number] = not guard end
              if held[number] then
                count.a = count.a + acknowledged
                if not kept[number] then new = new + acknowledged end
              else
                maybe = maybe + acknowledged
              end
            end
            local function delay(at, number, place, job)
              now = now or math.floor(clock())
              if string.sub(at, 1, 1) == '+' then
                at = string.format('%d', now + tonumber(at))
              elseif tonumber(at) <= now then
                at = string.format('%d', now + 1000)
              end
              redis.call('ZADD', KEYS[6], at, ARGV[1] .. ':' .. number .. ':' .. place .. '|' .. job)
            end
            local delays, notes, returned = false, 0, 0
            while ARGV[at] do
              local kind, number, place, note = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
              local extras = tonumber(ARGV[at + 4])
              local first = at + 5
              at = first + extras
              local ours, job, list, isAside = held[number], nil, KEYS[9], string.find(kind, '^[HTUVSC]$')
              if isAside then
                list, kind, at = KEYS[#KEYS - 1 - sides + ARGV[at]], string.lower(kind), at + 1
              end
              if ours and kept[number] and string.find('htDEc', kind) then
                job = redis.call('LRANGE', KEYS[4] .. ':' .. number, place, place)[1]
                ours = job
              end
              local term = kind
              if kind == 'r' or kind == 'p' then
                if ours then delay(ARGV[at], number, place, ARGV[at + 1]) delays = true end
                at = at + 2
              elseif kind == 'd' or kind == 'e' then
                if ours then redis.call('RPUSH', KEYS[7], ARGV[at]) end
                at = at + 1
              elseif kind == 'D' or kind == 'E' then
                if ours then
                  redis.call('HSET', KEYS[11], ARGV[at + 1], job or ARGV[at + 2])
                  redis.call('RPUSH', KEYS[7], ARGV[at])
                end
                at, term = at + 3, string.lower(kind)
              elseif kind == 'h' or kind == 't' then
                if ours then redis.call(kind == 'h' and 'LPUSH' or 'RPUSH', list, job or ARGV[at]) end
                at, term = at + 1, 'h'
              elseif kind == 'u' or kind == 'v' then
                if ours then redis.call(kind == 'u' and 'LPUSH' or 'RPUSH', list, ARGV[at]) end
                at, term = at + 1, 'h'
              elseif kind == 's' then
                local parts = tonumber(ARGV[at])
                if ours then
                  for i = at + parts, at + 1, -1 do redis.call('LPUSH', list, ARGV[i]) end
                end
                at, term = at + parts + 1, 'h'
              elseif kind == 'c' then
                local last = at + 2 + 2 * tonumber(ARGV[at])
                if ours then
                  for i = last, at + 4, -2 do
                    redis.call('LPUSH', list, ARGV[at + 1] .. string.sub(job, ARGV[i - 1], ARGV[i]) .. ARGV[at + 2])
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
                count[term] = count[term] + 1
                if term == 'h' and not isAside then returned = returned + 1 end
                if not kept[number] then new = new + 1 end
              elseif term == 'a' or term == 'r' or term == 'd' or term == 'e' then
                maybe = maybe + 1
              end
            end

            local left, gone, lists = {}, {}, {}
            for i = 1, n do
              local number, entry = numbers[i], ARGV[9 + 3 * i]
              if held[number] and entry == '' then
                gone[#gone + 1] = number
                lists[#lists + 1] = KEYS[4] .. ':' .. number
              elseif held[number] and kept[number] then
                left[#left + 1] = number
                left[#left + 1] = entry
              end
            end
            if #left > 0 then redis.call('HSET', KEYS[4], unpack(left)) end
            if #gone > 0 then
              redis.call('HDEL', KEYS[4], unpack(gone))
              redis.call('DEL', unpack(lists))
            end

            -- Drops the oldest elements. Returns their number, and the length of a list without a maximum.
            local function bound(list, added, most)
              if added == 0 then return 0, 0 end
              local length = redis.call('LLEN', list)
              if most == 0 then return 0, length end
              if length <= most then return 0, 0 end
              local surplus = length - most
              if list == KEYS[7] and redis.call('EXISTS', KEYS[11]) == 1 then
                -- Each record is read: the rest follows with the next batches.
                surplus = math.min(surplus, 1000)
                for _, record in ipairs(redis.call('LRANGE', list, 0, surplus - 1)) do
                  local stored = string.match(record, ', "job_field": "([^"\\\\]+)"')
                  if stored then redis.call('HDEL', KEYS[11], stored) end
                end
              end
              redis.call('LTRIM', list, surplus, -1)
              return surplus, 0
            end
            for i = #KEYS - sides, #KEYS - 1 do noted(KEYS[#KEYS], KEYS[i]) end
            local trimmed, letters = bound(KEYS[7], count.d + count.e, tonumber(ARGV[5]))
            local dropped, entries = bound(KEYS[8], notes, tonumber(ARGV[6]))
            redis.call('HSET', KEYS[3], 'settled', ARGV[3])
            if returned > 0 then redis.call('HSET', KEYS[3], 'returned', ARGV[3]) end
            local function add(key, name, by)
              if by > 0 then redis.pcall('HINCRBY', key, name, by) end
            end
            add(KEYS[5], 'claimed', new)
            add(KEYS[5], 'sent', count.a)
            add(KEYS[3], 'sent', count.a)
            add(KEYS[5], 'retried', count.r)
            add(KEYS[5], 'postponed', count.p)
            add(KEYS[5], 'dead', count.d)
            add(KEYS[5], 'expired', count.e)
            add(KEYS[5], 'released', count.h)
            add(KEYS[5], 'aside_released', count.h - returned)
            add(KEYS[5], 'resent', tonumber(ARGV[8]))
            add(KEYS[5], 'maybe_duplicate', maybe)
            add(KEYS[5], 'trimmed', trimmed + dropped)
            return {1, trimmed, delays and due(KEYS[6]) or -2, letters, dropped, entries}
            """)
}
