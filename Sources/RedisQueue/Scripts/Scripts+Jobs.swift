/// The scripts that run for every job.
extension Scripts {
    /// Moves jobs to a new chunk of the worker: from `recovered:1`, from `recovered:2`, one from `recovered:3` if the worker
    /// holds nothing else, or from Q. The caller reads the list of the chunk with LRANGE, in the same write.
    ///
    /// KEYS: nothing, workers, worker:W, chunks:W, stats, recovered:1, :2, :3, Q, paused, the list of the chunk, the list of the
    /// chunk with the next number. ARGV: W, number, number of the chunk, most jobs, most bytes (one job may exceed them), most
    /// from recovered:2, and for a piggybacked claim the last settlement that was confirmed when its wait began: W does not claim
    /// what it has given back since, because that would change the order.
    ///
    /// SORT copies the jobs, and no job passes through Lua. Redis estimates the bytes of a list by its first nodes of 8 KiB. The
    /// script asks for the nodes of at least as many jobs as it takes: otherwise SORT would also copy large jobs that are behind
    /// small ones. Redis knows the bytes of the short list of a chunk. Where this user may not run SORT or MEMORY, the script
    /// copies the jobs itself. A job of more than 24 MiB goes to the chunk with the next number, which the caller does not read.
    ///
    /// It takes nothing while the whole list is paused. The reply is `TAKEN`, and nothing changes, if one of the two numbers is
    /// in use: then another process has the name of this worker, or this process was put back in time.
    ///
    /// With asides as KEYS[13], Q is the side list of an app, and recovered:1 to :3 are nothing.
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
              hasRecovered = not KEYS[13] and redis.call('EXISTS', KEYS[6], KEYS[7], KEYS[8]) > 0
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
              if KEYS[13] then noted(KEYS[13], list) end
              return {with(paused, 1), 0, 0, 0, hasRecovered and waiting(KEYS[6], KEYS[7], KEYS[8]) or 0}
            end
            most = math.min(most, length)
            local number, following, chunk, flags = ARGV[3], string.format('%d', ARGV[3] + 1), KEYS[11], 0
            local taken = redis.call('HMGET', KEYS[4], number, following)
            if taken[1] or taken[2] or redis.call('EXISTS', KEYS[11], KEYS[12]) > 0 then return 'TAKEN' end
            -- Both are tried: without the first, a failed claim could not be undone; without the second, it would be repeated.
            redis.call('DEL', KEYS[1]) redis.call('LTRIM', KEYS[1], 0, 0)
            local function enlarge() number, chunk, flags = following, KEYS[12], 1 end
            local function bytes(key, samples) return redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', samples) end
            local function sort(run) return run('SORT', list, 'BY', 'nosort', 'LIMIT', 0, most, 'STORE', chunk) end
            local function isCopied()
              local size = bytes(list, 20)
              if type(size) ~= 'number' then return false end
              if size * most > 20 * 8192 * length then size = bytes(list, most) end
              most = math.max(1, math.min(most, math.floor(2 * room * length / size)))
              if type(sort(redis.pcall)) ~= 'number' then return false end
              size = bytes(chunk, 0)
              while size > room and most > 1 do
                most = math.max(1, math.min(most - 1, math.floor(most * room / size)))
                redis.call('LTRIM', chunk, 0, most - 1)
                size = bytes(chunk, 0)
              end
              if size > \(ClaimedJob.mostBytes) then
                redis.call('DEL', chunk)
                enlarge()
                sort(redis.call)
              end
              return true
            end
            -- In pieces, so that a few jobs of megabytes do not become gigabytes.
            local function copy()
              local count, size = 0, 0
              while count < most do
                local last = math.min(most, count == 0 and 10 or count + 40) - 1
                local jobs = redis.call('LRANGE', list, count, last)
                if #jobs == 0 then error('the list has no jobs', 0) end
                for _, job in ipairs(jobs) do
                  size = size + #job
                  if size > room and count > 0 then return count end
                  if size > \(ClaimedJob.mostBytes) then enlarge() end
                  redis.call('RPUSH', chunk, job)
                  count = count + 1
                end
              end
              return most
            end
            local function move()
              if not isCopied() then
                most = copy()
                flags = flags + 2
              end
              redis.call('HSET', KEYS[4], number, level .. ':' .. string.rep('1', most))
              if level == 3 then redis.call('HSET', KEYS[3], 'alone', number) end
              redis.call('LTRIM', list, most, -1)
            end
            local isMoved, fault = pcall(move)
            if not isMoved then
              redis.pcall('HDEL', KEYS[4], number)
              redis.pcall('DEL', KEYS[11], KEYS[12])
              error(fault, 0)
            end
            if KEYS[13] then
              noted(KEYS[13], list)
              redis.pcall('HINCRBY', KEYS[5], 'aside_claimed', most)
            end
            redis.pcall('HINCRBY', KEYS[5], 'claimed', most)
            redis.pcall('HINCRBY', KEYS[3], 'claimed', most)
            local drained = level == 0 and most == length and 1 or 0
            return {with(paused, drained), most, level, flags, hasRecovered and waiting(KEYS[6], KEYS[7], KEYS[8]) or 0}
            """)

    /// Rewrites the list of a chunk with the jobs in flight only: a settled place becomes empty, and those behind the last job in
    /// flight disappear, so that every other place stays where it is. The jobs are added before the old list is removed. Both
    /// commands are tried on a key that does not exist.
    static let compact = """
        local function compact(list, entry, nothing)
          local length, jobs, last = redis.call('LLEN', list), {}, 0
          for place = 1, #entry - 2 do
            jobs[place] = ''
            if string.byte(entry, place + 2) == \(Chunk.mark) then
              jobs[place] = redis.call('LRANGE', list, place - 1, place - 1)[1]
              if not jobs[place] then return end
              last = place
            end
          end
          redis.call('LTRIM', nothing, 0, 0)
          redis.call('RPUSH', list, unpack(jobs, 1, last))
          redis.call('LTRIM', list, length, -1)
        end

        """

    /// Applies a batch of settlements, each only if this worker still holds its job: nothing happens twice, or to a job that
    /// another worker has.
    ///
    /// Batches are numbered one by one. A batch that was applied before is skipped, so that counters count it once. A batch that
    /// is too early (its predecessor met NOSCRIPT) gets the reply `GAP` and is sent again, and so is one with a chunk that is
    /// missing. A batch that fails in the middle marks the steps that it has applied, so that they are skipped when it is sent
    /// again. A result is added first, because it may fail for reasons that no trial finds.
    ///
    /// KEYS: nothing, workers, worker:W, chunks:W, stats, delayed, dead, feedback, Q, results or nothing, large, then
    /// each list of a chunk that the batch removes, reads or compacts, and last of all the side lists of the batch, if it has
    /// any, and asides. ARGV: W, number, sequence, guard (1, or 0 for
    /// `at_most_once`, which keeps only suspects), most dead letters (0: any), most feedback entries (0: any), most results,
    /// resent, maybe_duplicate, n, the numbers of the chunks to compact, with a blank
    /// around each, then n times a chunk: its number, its entry after the
    /// batch ('' when no job of it is left, '-' when Redis keeps none), and the number of plain acknowledgements in it. Then
    /// steps, each of: kind, number of the chunk, position, feedback record or '', count of results, results, for a kind from h
    /// to c in upper case the number of a side list that takes the place of Q, and by kind. In front of the steps: x and the
    /// number of side lists, if there are any.
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
    ///     s  k, k jobs              replaced by these parts at the head of Q
    ///     c  k, text, text, k times first and last byte
    ///                               replaced by k parts of it at the head of Q, each between the two texts
    ///
    /// Replies 1 (0: skipped), the number of trimmed dead letters, when `delayed` is due (-2: not read), the number of dead
    /// letters (0: none was added, or there is a maximum), and the same two numbers for feedback.
    package static let settle = Script(
        clock + due + compact + noted + fence + """
            local sequence, settled = tonumber(ARGV[3]), tonumber(state[2])
            if sequence <= settled then return {0, 0, -2, 0, 0, 0} end
            if sequence > settled + 1 then return 'GAP' end
            local guard = ARGV[4] == '1'
            local n = tonumber(ARGV[10])
            local at, sides = 12 + 3 * n, 0
            if ARGV[at] == 'x' then at, sides = at + 2, tonumber(ARGV[at + 1]) end
            local numbers, known, kept = {}, {}, {}
            for i = 1, n do
              numbers[i] = ARGV[9 + 3 * i]
              kept[numbers[i]] = ARGV[10 + 3 * i] ~= '-'
            end
            if n > 0 then known = redis.call('HMGET', KEYS[4], unpack(numbers)) end
            -- Redis returned to a state before the claim: the worker puts the jobs back, and then sends the batch again.
            for i = 1, n do if guard and kept[numbers[i]] and not known[i] then return 'GAP' end end
            if ARGV[at] then
              redis.call('ZCARD', KEYS[6]) redis.call('LLEN', KEYS[7]) redis.call('LLEN', KEYS[8]) redis.call('LLEN', KEYS[9])
              redis.call('HLEN', KEYS[11])
              if KEYS[10] ~= KEYS[1] then redis.call('XLEN', KEYS[10]) end
              -- Jobs that Redis does not keep have no marks of applied steps: such a batch must not fail in the middle.
              for i = 12, guard and 0 or #KEYS - math.min(sides, 1) do redis.call('LLEN', KEYS[i]) end
              for i = #KEYS - sides, #KEYS - 1 do redis.call('LLEN', KEYS[i]) end
              if sides > 0 then redis.call('HLEN', KEYS[#KEYS]) end
            end
            redis.call('HLEN', KEYS[5])
            redis.call('DEL', KEYS[1])
            local now = 0
            if ARGV[at] then
              -- Each command is tried without an effect: a user who lacks a right repeats no step.
              redis.call('LRANGE', KEYS[1], 0, 0)
              redis.call('RPUSH', KEYS[1], '') redis.call('LPUSH', KEYS[1], '')
              if KEYS[10] ~= KEYS[1] then
                redis.call('DEL', KEYS[1])
                redis.call('XADD', KEYS[1], '*', '', '')
              end
              redis.call('DEL', KEYS[1])
              redis.call('ZADD', KEYS[6], 'XX', 0, '') redis.call('HDEL', KEYS[4], '')
              redis.call('HSET', KEYS[3], 'settled', state[2])
              now = math.floor(clock())
            end

            -- Of the steps, and of the plain acknowledgements in chunks of this worker.
            local count, accepted = {a = 0, r = 0, p = 0, d = 0, e = 0, h = 0}, 0
            local maybe, held, new = tonumber(ARGV[9]), {}, 0
            for i = 1, n do
              local number, acknowledged = numbers[i], tonumber(ARGV[11 + 3 * i])
              if kept[number] then held[number] = known[i] else held[number] = not guard end
              if held[number] then accepted = accepted + acknowledged else maybe = maybe + acknowledged end
              if held[number] and not kept[number] then new = new + acknowledged end
            end
            local function delay(at, number, place, job)
              if string.sub(at, 1, 1) == '+' then
                at = string.format('%d', now + tonumber(at))
              elseif tonumber(at) <= now then
                at = string.format('%d', now + 1000)
              end
              redis.call('ZADD', KEYS[6], at, ARGV[1] .. ':' .. number .. ':' .. place .. '|' .. job)
            end
            -- The applied steps, each by the place of its first argument.
            local applied, steps, delays, notes, left, gone, lists = {}, 0, false, 0, {}, {}, {}
            local returned = 0
            local function apply()
              local ARGV, KEYS, redis, held, kept, count, at = ARGV, KEYS, redis, held, kept, count, at
              while ARGV[at] do
                local step, kind, number, place, note = at, ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
                local extras = tonumber(ARGV[at + 4])
                local first = at + 5
                at = first + extras
                local ours, job, isSettled, list = held[number], nil, false, KEYS[9]
                local isAside = string.find(kind, '^[HTUVSC]$')
                if isAside then list, kind, at = KEYS[#KEYS - 1 - sides + ARGV[at]], string.lower(kind), at + 1 end
                if ours and kept[number] then
                  isSettled = string.byte(ours, place + 3) ~= \(Chunk.mark)
                  ours = not isSettled
                  if ours and string.find('htDEc', kind) then
                    job = redis.call('LRANGE', KEYS[4] .. ':' .. number, place, place)[1]
                    ours = job
                  end
                end
                if ours and extras > 0 then
                  redis.call('XADD', KEYS[10], 'MAXLEN', ARGV[7], '*', unpack(ARGV, first, first + extras - 1))
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
                  count[term] = count[term] + 1
                  if term == 'h' and not isAside then returned = returned + 1 end
                  steps = steps + 1
                  applied[steps] = step
                elseif isSettled then
                  -- An earlier run of this batch has applied the step.
                elseif term == 'a' or term == 'r' or term == 'd' or term == 'e' then
                  maybe = maybe + 1
                end
              end

              for i = 1, n do
                local number, entry = numbers[i], ARGV[10 + 3 * i]
                if held[number] and entry == '' then
                  gone[#gone + 1] = number
                  lists[#lists + 1] = KEYS[4] .. ':' .. number
                elseif held[number] and kept[number] then
                  left[#left + 1] = number
                  left[#left + 1] = entry
                end
              end
              if #left > 0 then redis.call('HSET', KEYS[4], unpack(left)) end
              if returned > 0 then
                redis.call('HSET', KEYS[3], 'settled', ARGV[3], 'returned', ARGV[3])
              else
                redis.call('HSET', KEYS[3], 'settled', ARGV[3])
              end
              if #gone > 0 then redis.call('HDEL', KEYS[4], unpack(gone)) end
            end

            local function add(key, name, by)
              if by > 0 then redis.pcall('HINCRBY', key, name, by) end
            end
            local function addSteps()
              for i = 1, guard and 0 or steps do
                if not kept[ARGV[applied[i] + 1]] then new = new + 1 end
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
              for i = #KEYS - sides, #KEYS - 1 do pcall(noted, KEYS[#KEYS], KEYS[i]) end
            end
            local isApplied, fault = pcall(apply)
            if not isApplied then
              -- The batch stays unsettled: the marks of the applied steps go, and all others stay.
              for i = 1, steps do
                local number, place = ARGV[applied[i] + 1], ARGV[applied[i] + 2]
                if kept[number] then
                  held[number] = string.sub(held[number], 1, place + 2) .. '0' .. string.sub(held[number], place + 4)
                end
              end
              for i = 1, n do
                if held[numbers[i]] and kept[numbers[i]] then redis.pcall('HSET', KEYS[4], numbers[i], held[numbers[i]]) end
              end
              redis.pcall('HSET', KEYS[3], 'settled', state[2])
              if returned > 0 then redis.pcall('HSET', KEYS[3], 'returned', ARGV[3]) end
              new = 0
              addSteps()
              error(fault, 0)
            end
            if #lists > 0 then redis.call('DEL', unpack(lists)) end

            -- What follows can wait for a later batch: a failure has no influence on this one.
            if ARGV[11] ~= '' then
              for i = 1, #left, 2 do
                local isWasteful = string.find(ARGV[11], ' ' .. left[i] .. ' ', 1, true)
                if isWasteful then pcall(compact, KEYS[4] .. ':' .. left[i], left[i + 1], KEYS[1]) end
              end
            end
            -- Drops the oldest elements. Returns their number, and the length of a list without a maximum.
            local function bound(list, most)
              local length = redis.call('LLEN', list)
              if most == 0 then return 0, length end
              if length <= most then return 0, 0 end
              local surplus, records = length - most, {}
              if list == KEYS[7] and redis.call('EXISTS', KEYS[11]) == 1 then
                -- Each record is read: the rest follows with the next batches.
                surplus = math.min(surplus, 1000)
                records = redis.call('LRANGE', list, 0, surplus - 1)
              end
              redis.call('LTRIM', list, surplus, -1)
              for _, record in ipairs(records) do
                local stored = string.match(record, ', "job_field": "([^"\\\\]+)"')
                if stored then redis.pcall('HDEL', KEYS[11], stored) end
              end
              return surplus, 0
            end
            local function bounded(list, added, most)
              if added == 0 then return 0, 0 end
              local isBounded, dropped, length = pcall(bound, list, tonumber(most))
              if isBounded then return dropped, length end
              return 0, 0
            end
            local trimmed, letters = bounded(KEYS[7], count.d + count.e, ARGV[5])
            local dropped, entries = bounded(KEYS[8], notes, ARGV[6])
            local isDueKnown, ready = false, -2
            if delays then isDueKnown, ready = pcall(due, KEYS[6]) end
            count.a = count.a + accepted
            addSteps()
            add(KEYS[5], 'resent', tonumber(ARGV[8]))
            add(KEYS[5], 'maybe_duplicate', maybe)
            add(KEYS[5], 'trimmed', trimmed + dropped)
            return {1, trimmed, isDueKnown and ready or -2, letters, dropped, entries}
            """)
}
