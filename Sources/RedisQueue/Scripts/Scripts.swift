/// The scripts. All of them keep these rules:
///
/// - They move bytes and never parse a job: cjson would turn 9007199254740993 into 9.007e15. Lua hashes every byte of a job that
///   it sees, so the path of nearly all jobs shows it none: Redis copies them from list to list.
/// - The list of a chunk is at the key of the worker's chunks, followed by a colon and its number. See `Keys.chunks`.
/// - A step that may fail (a wrong type at a key, a right that the user lacks) is tried before the first effect, and a job is
///   added at its new place before it is removed from the old one: Redis does not roll back, and half a script must never lose a
///   job. A script that failed can be called again any number of times: no effect is repeated.
/// - Every key that a script touches is among KEYS, also the lists of chunks: Redis checks the rights to all of them first.
/// - The first write is a DEL of a key that exists only during a script, or a removal. After it Redis lets a script finish even
///   when it is out of memory. It refuses a first HSET or LPUSH (`script_oom` in the Redis source).
/// - A worker's call names the worker and its connection number, with a random fraction. The reply is `FENCED` when the worker
///   is not registered, and `STALE` when the number is not the current one: the call was in the buffer of a former connection,
///   or another process has the name of this worker.
/// - Counters come last, through `pcall`: a counter that is not a number must not undo the other steps.
package enum Scripts {
    /// Shared by the calls of a registered worker: KEYS[1] nothing, [2] workers, [3] worker:W; ARGV[1] W, [2] number.
    static let fence = """
        if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 'FENCED' end
        local state = redis.call('HMGET', KEYS[3], 'number', 'settled', 'alone', 'returned')
        if state[1] ~= ARGV[2] then return 'STALE' end

        """

    /// Redis' own clock, in milliseconds since 1970.
    static let clock = """
        local function clock()
          local time = redis.call('TIME')
          return time[1] * 1000 + time[2] / 1000
        end

        """

    /// Milliseconds until the first delayed job is due, at most an hour, or -1 when there is none. Needs `clock`.
    static let due = """
        local function due(delayed)
          local head = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
          if #head == 0 then return -1 end
          return math.min(3600000, math.max(0, math.ceil(tonumber(head[2]) - clock())))
        end

        """

    /// The pauses in force by Redis' clock, as a flat array: a place for a number, then field, milliseconds that are left (-1: no
    /// end) and record of each; `nil` when there is none. The second result tells whether the whole list is paused. With
    /// `cleans`, pauses that have ended are removed. Needs `clock`.
    static let pauses = """
        -- In pieces: Lua cannot unpack 8,000 fields at once.
        local function values(key, fields)
          local all = {}
          for first = 1, #fields, 1000 do
            local part = redis.call('HMGET', key, unpack(fields, first, math.min(first + 999, #fields)))
            for i = 1, #part do all[first + i - 1] = part[i] end
          end
          return all
        end
        local function pauses(key, cleans)
          local fields = redis.call('HKEYS', key)
          if #fields == 0 then return nil, false end
          local records, now, out, whole = values(key, fields), clock(), {0}, false
          for i, field in ipairs(fields) do
            local ends = tonumber(string.match(records[i], '^{"until": (%d+),')) or 0
            if ends == 0 or ends > now then
              out[#out + 1] = field
              out[#out + 1] = ends == 0 and -1 or math.ceil(ends - now)
              out[#out + 1] = records[i]
              whole = whole or field == ''
            elseif cleans then
              redis.call('HDEL', key, field)
            end
          end
          if #out == 1 then return nil, false end
          return out, whole
        end
        -- The number, or with pauses the array with the number in front.
        local function with(paused, number)
          if not paused then return number end
          paused[1] = number
          return paused
        end

        """

    /// Adds the side lists to what `pauses` has returned: the app, -2 and the number of jobs of each. Needs `pauses`.
    static let asides = """
        local function asides(key, out)
          local apps = redis.call('HKEYS', key)
          if #apps == 0 then return out end
          out = out or {0}
          for i, count in ipairs(values(key, apps)) do
            out[#out + 1] = apps[i]
            out[#out + 1] = -2
            out[#out + 1] = count
          end
          return out
        end

        """

    /// The kind of the recovered jobs: 0 none, 1 some, 2 only those that must be alone.
    static let waiting = """
        local function waiting(first, second, third)
          if redis.call('EXISTS', first, second, third) == 0 then return 0 end
          if redis.call('EXISTS', first, second) > 0 then return 1 end
          return 2
        end

        """

    /// Appends all workers with their heartbeat counters; workers that keep chunks and are not registered have the counter -1.
    static let counters = """
        local function counters(workers, holders, out)
          for _, item in ipairs(redis.call('ZRANGE', workers, 0, -1, 'WITHSCORES')) do out[#out + 1] = item end
          for _, name in ipairs(redis.call('HKEYS', holders)) do
            if not redis.call('ZSCORE', workers, name) then
              out[#out + 1] = name
              out[#out + 1] = '-1'
            end
          end
          return out
        end

        """

    /// Registers a worker, also again after a lost connection, under a connection number higher than any before.
    ///
    /// KEYS: nothing, workers, worker:W, chunks:W, stats, recovered:1, :2, :3, Q, delayed, dead, feedback, results or
    /// nothing, paused, holders, asides.
    /// ARGV: W, number, heartbeat counter, the last settlement that this worker knows as applied, 1 when it was registered
    /// before, a random number, 0 where dead letters have no maximum, the same for feedback, the identity of the process, its
    /// last settlement, the number of its last registration whose reply it has read, the numbers of this and of its later
    /// registrations, with a blank around each, then fields of worker:W.
    ///
    /// Replies `{'NUMBER', n, epoch, settled, chunks}`, as below, and does nothing when the record of W cannot be continued: n is
    /// not lower than this number, another process with the same memory has registered under n, or the record has another
    /// identity or later settlements. Another process then uses this name (a cloned machine, a process that returned to an
    /// earlier state), or the record is damaged. The record of a takeover cannot be continued either if W had registered under
    /// this or a later number: its settlements may have the numbers of other ones here. Then n is empty.
    ///
    /// Otherwise replies present (1 or 0), the last settlement that is stored, also when this worker was among the last to be
    /// reaped (-1: none), the epoch: the random number that was stored first in this data set (another one: Redis was emptied),
    /// the kind of the recovered jobs, when `delayed` is due (with the pauses and side lists, if any), the number of dead
    /// letters where they have no maximum (else 0), the same for feedback, the chunks of this worker with their entries, the
    /// chunks that were taken over (`-`: W was not reaped, `*`: it was reaped by a worker of 0.2, else numbers), the number
    /// of jobs that wait or were ever claimed in this data set, and all workers with their counters.
    ///
    /// A reply may be lost. The stored settlement and the chunks that were taken over are therefore kept as fields of worker:W
    /// (`known`, `taken`), and replied until the worker has read a reply of the registration `since` or a later one.
    static let register = Script(
        clock + due + pauses + asides + waiting + counters + """
            local jobs = redis.call('LLEN', KEYS[9]) + redis.call('ZCARD', KEYS[10])
            redis.call('HLEN', KEYS[4])
            for i = 6, 8 do jobs = jobs + redis.call('LLEN', KEYS[i]) end
            local letters = redis.call('LLEN', KEYS[11])
            local notes = redis.call('LLEN', KEYS[12])
            if KEYS[13] ~= KEYS[1] then redis.call('XLEN', KEYS[13]) end
            local epoch, paused = redis.call('HGET', KEYS[5], 'born'), asides(KEYS[16], (pauses(KEYS[14])))
            local present, own = redis.call('ZSCORE', KEYS[2], ARGV[1]), math.floor(tonumber(ARGV[2]))
            local state = redis.call('HMGET', KEYS[3], 'number', 'settled', 'identity', 'since', 'known', 'taken')
            local stored, since, lowest, taken = state[2], state[4], state[5], state[6] or '-'
            if not stored then
              stored = redis.call('HGET', KEYS[5], 'reaped:' .. ARGV[1])
              since, lowest, taken = nil, nil, '-'
              if stored then
                taken = '*'
                for _, field in ipairs(redis.call('HKEYS', KEYS[5])) do
                  local name, number, least, chunks = string.match(field, '^taken:([^|]*)|(%d*)|(%-?%d*)|([%d,]*)$')
                  if name == ARGV[1] then since, lowest, taken = number, least, chunks end
                end
              end
            end
            local last = tonumber(stored or -1) or math.huge
            local isForeign = last > tonumber(ARGV[10]) or not state[1] and (tonumber(since) or 0) >= own
            if state[1] then
              isForeign = isForeign or math.floor(tonumber(state[1]) or math.huge) >= own
              isForeign = isForeign or state[3] and state[3] ~= ARGV[9]
              if string.find(state[1], '.', 1, true) and (tonumber(state[1]) or 0) >= tonumber(ARGV[11]) then
                isForeign = isForeign or not string.find(ARGV[12], ' ' .. state[1] .. ' ', 1, true)
              end
            end
            local function chunks()
              local entries = {}
              for _, number in ipairs(redis.call('HKEYS', KEYS[4])) do
                table.insert(entries, number)
                table.insert(entries, redis.call('HGET', KEYS[4], number))
              end
              return entries
            end
            if isForeign then return {'NUMBER', state[1] or '', epoch or '', stored or '-1', chunks()} end
            redis.call('HLEN', KEYS[15])
            redis.call('DEL', KEYS[1])
            local known = stored or '-1'
            if (tonumber(since or 0) or 0) > tonumber(ARGV[11]) then
              if (tonumber(lowest) or math.huge) < last then known = lowest end
            else
              since = string.format('%d', own)
              if state[2] then taken = '-' end
            end
            local settled = ARGV[4]
            if last > tonumber(settled) then settled = stored end
            redis.call('HSET', KEYS[3], 'number', ARGV[2], 'settled', settled, 'identity', ARGV[9], 'since', since,
              'known', known, 'taken', taken, unpack(ARGV, 13))
            redis.call('HSET', KEYS[15], ARGV[1], '2')
            redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
            if not epoch then
              epoch = ARGV[6]
              redis.call('HSET', KEYS[5], 'born', epoch)
            elseif ARGV[5] == '1' and not present and taken ~= '-' then
              redis.pcall('HINCRBY', KEYS[5], 'fenced', 1)
            end
            local answer = {present and 1 or 0, known, epoch, waiting(KEYS[6], KEYS[7], KEYS[8])}
            answer[5] = with(paused, due(KEYS[10]))
            answer[6] = ARGV[7] == '0' and letters or 0
            answer[7] = ARGV[8] == '0' and notes or 0
            answer[8] = chunks()
            answer[9] = taken
            answer[10] = jobs + math.max(0, math.min(2 ^ 52, tonumber(redis.call('HGET', KEYS[5], 'claimed') or 0) or 0))
            return counters(KEYS[2], KEYS[15], answer)
            """)

    /// The heartbeat: sets the counter to a value that it never had. The other workers compare only that.
    ///
    /// KEYS: nothing, workers, worker:W, recovered:1, :2, :3, delayed, paused, holders, chunks:W, asides. ARGV: W, number,
    /// counter, the last settlement that was confirmed, the number of the newest chunk ('' if there is none). Replies the kind
    /// of the recovered jobs, when `delayed` is due (with the pauses and side lists, if any), and all workers with their
    /// counters; or `GAP` if that settlement or that chunk is lost: an idle worker settles nothing, and would not notice that
    /// Redis returned to an earlier state.
    static let beat = Script(
        clock + due + pauses + asides + waiting + counters + fence + """
            if tonumber(state[2] or 0) < tonumber(ARGV[4]) then return 'GAP' end
            if ARGV[5] ~= '' and redis.call('HEXISTS', KEYS[10], ARGV[5]) == 0 then return 'GAP' end
            redis.call('DEL', KEYS[1])
            local paused = asides(KEYS[11], (pauses(KEYS[8], true)))
            redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
            local answer = {waiting(KEYS[4], KEYS[5], KEYS[6]), with(paused, due(KEYS[7]))}
            return counters(KEYS[2], KEYS[9], answer)
            """)

    /// Moves up to 100 jobs that are due by Redis' own clock from `delayed` to the head of Q, the first due in front. It is not
    /// fenced, because any worker may call it at any time.
    ///
    /// KEYS: nothing, delayed, Q. Replies the number of moved jobs, and when the next is due.
    static let promote = Script(
        clock + due + """
            local ripe = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', math.floor(clock()), 'LIMIT', 0, 100)
            if #ripe > 0 then
              redis.call('LLEN', KEYS[3])
              redis.call('DEL', KEYS[1])
              -- Without the right to remove them, none is pushed.
              redis.call('ZREM', KEYS[2], '') redis.call('ZRANGE', KEYS[2], 0, 0)
              for i = #ripe, 1, -1 do
                redis.call('LPUSH', KEYS[3], string.sub(ripe[i], string.match(ripe[i], '^[^|{]+:[%d:]+|()') or 1))
              end
              redis.call('ZREM', KEYS[2], unpack(ripe))
            end
            return {#ripe, due(KEYS[2])}
            """)

    /// Moves a dead worker's jobs, in the order of their claims, to the lists of recovered jobs, one crash further. A job that
    /// was alone at a crash goes to a chunk of the caller. Nothing happens unless the heartbeat counter is the one that was seen
    /// (-1: D is not registered), for at least the lease that D has published.
    ///
    /// Records of the last 64 dead workers are kept in `stats`, where all values are numbers: `reaped:D`, the last settlement,
    /// and `taken:D|since|known|chunks`, the time in ms; the name has two fields of D and the numbers of its chunks. A worker
    /// that returns and has settled more, or has chunks that were not taken over, had another Redis.
    ///
    /// KEYS: nothing, workers, worker:W, chunks:W, worker:D, inflight:D, chunks:D, stats, recovered:1, :2, :3, holders, the list
    /// of a chunk of W for suspects, then the lists of the chunks of D. ARGV: W, number, D, the counter seen, number of the chunk
    /// for suspects, milliseconds since the counter was first seen ('' when the process of D is gone). Replies -1 when D may be
    /// alive, else the number of jobs moved to the lists, the kind of the recovered jobs, and the suspects; or `LISTS` and the
    /// numbers of the chunks of D, if a list of them is not among KEYS; or `TAKEN` if the number for suspects is in use.
    static let reap = Script(
        clock + waiting + abridged + fence + """
            local seen = redis.call('ZSCORE', KEYS[2], ARGV[3])
            if tonumber(seen or -1) ~= tonumber(ARGV[4]) then return {-1, 0} end
            local lease, silence = redis.pcall('HGET', KEYS[5], 'lease'), tonumber(ARGV[6])
            if silence and type(lease) == 'string' and silence < (tonumber(lease) or 0) then return {-1, 0} end
            for i = 9, 11 do redis.call('LLEN', KEYS[i]) end
            redis.call('HLEN', KEYS[12])
            local function sorted(key)
              local fields = {}
              for _, field in ipairs(redis.call('HKEYS', key)) do
                local number, level = string.match(field, '^(%d+):?(%d*)$')
                fields[#fields + 1] = {field, tonumber(number) or 0, tonumber(level) or 0}
              end
              table.sort(fields, function(a, b) return a[2] < b[2] end)
              return fields
            end
            local older, chunks, declared, unknown = sorted(KEYS[6]), sorted(KEYS[7]), {}, false
            for i = 14, #KEYS do declared[KEYS[i]] = true end
            for _, chunk in ipairs(chunks) do unknown = unknown or not declared[KEYS[7] .. ':' .. chunk[1]] end
            if unknown then
              local numbers = {'LISTS'}
              for i, chunk in ipairs(chunks) do numbers[i + 1] = chunk[1] end
              return numbers
            end
            for i = 14, #KEYS do redis.call('LLEN', KEYS[i]) end
            if redis.call('HEXISTS', KEYS[4], ARGV[5]) == 1 or redis.call('EXISTS', KEYS[13]) == 1 then return 'TAKEN' end
            redis.call('DEL', KEYS[1])
            -- As in `settle`, each command is tried without an effect.
            redis.call('LRANGE', KEYS[1], 0, 0) redis.call('HSET', KEYS[3], 'number', ARGV[2])
            redis.call('ZREM', KEYS[2], '') redis.call('HDEL', KEYS[12], '')
            local now = math.floor(clock())
            local out, moved, most = {0, 0}, 0, \(Chunk.mostJobs)
            local function move(job, level)
              if level >= 3 and #out - 2 < most then
                redis.call('RPUSH', KEYS[13], job)
                out[#out + 1] = abridged(job)
              else
                redis.call('RPUSH', KEYS[9 + math.min(level, 2)], job)
                moved = moved + 1
              end
            end
            for _, entry in ipairs(older) do move(redis.call('HGET', KEYS[6], entry[1]), entry[3]) end
            for _, chunk in ipairs(chunks) do
              local list, entry = KEYS[7] .. ':' .. chunk[1], redis.call('HGET', KEYS[7], chunk[1])
              local level = tonumber(string.sub(entry, 1, 1)) or 0
              for place = 3, #entry do
                local job = string.sub(entry, place, place) == '1' and redis.call('LRANGE', list, place - 3, place - 3)[1]
                if job then move(job, level) end
              end
            end
            if #out > 2 then redis.call('HSET', KEYS[4], ARGV[5], '4:' .. string.rep('1', #out - 2)) end
            local settled = redis.pcall('HGET', KEYS[5], 'settled')
            local evidence, taken = redis.pcall('HMGET', KEYS[5], 'since', 'known', 'taken'), {}
            if not evidence.err and evidence[3] and string.find(evidence[3], '^%d[%d,]*$') then taken[1] = evidence[3] end
            for _, chunk in ipairs(chunks) do
              redis.call('DEL', KEYS[7] .. ':' .. chunk[1])
              if string.find(chunk[1], '^%d+$') then taken[#taken + 1] = chunk[1] end
            end
            redis.call('DEL', KEYS[5], KEYS[6], KEYS[7])
            redis.call('ZREM', KEYS[2], ARGV[3])
            redis.call('HDEL', KEYS[12], ARGV[3])
            local stats = redis.pcall('HKEYS', KEYS[8])
            if type(settled) == 'string' and not stats.err then
              local known, records = {}, {}
              for _, field in ipairs(stats) do
                local name = string.match(field, '^taken:([^|]*)|')
                if name then
                  if redis.pcall('HEXISTS', KEYS[8], 'reaped:' .. name) ~= 1 or name == ARGV[3] then
                    redis.pcall('HDEL', KEYS[8], field)
                  else
                    records[name] = field
                  end
                end
              end
              for _, field in ipairs(stats) do
                local name = string.match(field, '^reaped:(.*)$')
                if name and name ~= ARGV[3] then
                  known[#known + 1] = {name, records[name] and tonumber(redis.pcall('HGET', KEYS[8], records[name])) or 0}
                end
              end
              table.sort(known, function(a, b) return a[2] < b[2] end)
              for place = 1, #known - 63 do
                local name = known[place][1]
                redis.pcall('HDEL', KEYS[8], 'reaped:' .. name, records[name] or '')
              end
              local since, lowest = tonumber(evidence[1] or ''), tonumber(evidence[2] or '')
              local record = string.format('taken:%s|%s|%s|%s', ARGV[3], since and evidence[1] or '',
                lowest and evidence[2] or '', table.concat(taken, ','))
              local time = string.format('%d', now)
              redis.pcall('HSET', KEYS[8], 'reaped:' .. ARGV[3], settled, record, time)
            end
            local all = moved + #out - 2
            if moved > 0 then redis.pcall('HINCRBY', KEYS[8], 'recovered', moved) end
            if all > 0 then redis.pcall('HINCRBY', KEYS[8], 'maybe_duplicate', all) end
            out[1], out[2] = moved, waiting(KEYS[9], KEYS[10], KEYS[11])
            return out
            """)

    /// Of a job that is too large, only its size and its beginning are sent.
    static let abridged = """
        local function abridged(job)
          if not job or #job <= \(ClaimedJob.mostBytes) then return job end
          return {#job, string.sub(job, 1, \(ClaimedJob.headBytes))}
        end

        """

    /// Replies the jobs at these positions of a chunk.
    ///
    /// KEYS: the list of the chunk. ARGV: positions.
    static let fetch = Script(
        abridged + """
            local jobs = {}
            for i, place in ipairs(ARGV) do jobs[i] = abridged(redis.call('LRANGE', KEYS[1], place, place)[1] or false) end
            return jobs
            """)

    /// Puts jobs of a chunk that a worker holds in memory back into Redis, after Redis was emptied or put back to an earlier
    /// state. It can be sent again: a job that the chunk has in flight is skipped.
    ///
    /// Redis may have the jobs where they were before the claim. The script looks for them near the head of that list, and moves
    /// those that it finds, so that they are not pushed twice. The others count as `maybe_duplicate`, unless the script has read
    /// the whole list and nothing was claimed in this data set: they may be further back, or another worker may have claimed them
    /// since. Of a job that is too large only the beginning is
    /// given: it is moved if it is at the head.
    ///
    /// KEYS: nothing, workers, worker:W, chunks:W, stats, recovered:1, :2, :3, Q, the list of the chunk. ARGV: W, number, number
    /// of the chunk, number of crashes at which its jobs were in flight, number of positions, then for each job: position, size
    /// ('' where all of it follows), bytes. Replies the number of jobs that were put back, the number of those that were found,
    /// and the positions of jobs that are too large and were not found.
    static let adopt = Script(
        fence + """
            local number, level, size = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
            local chunk, entry = KEYS[10], redis.call('HGET', KEYS[4], number)
            local source = level == 0 and KEYS[9] or level < 4 and KEYS[5 + level]
            local jobs, marks = entry and redis.call('LRANGE', chunk, 0, -1) or {}, {}
            if entry then size = math.max(size, #entry - 2) end
            for place = 1, size do
              marks[place] = entry and string.sub(entry, place + 2, place + 2) == '1' and '1' or '0'
              jobs[place] = jobs[place] or ''
            end
            local out, wanted, missing, found, cut, kept = {0, 0}, {}, 0, 0, 0, {}
            for i = 6, #ARGV, 3 do
              local place, job = tonumber(ARGV[i]) + 1, ARGV[i + 2]
              if marks[place] ~= '1' and ARGV[i + 1] ~= '' then
                local first = source and cut == 0 and redis.call('LRANGE', source, 0, 0)[1]
                if first and #first == tonumber(ARGV[i + 1]) and string.sub(first, 1, #job) == job then
                  jobs[place], marks[place], missing, found, cut = first, '1', missing + 1, 1, 1
                else
                  out[#out + 1] = place - 1
                end
              elseif marks[place] ~= '1' then
                jobs[place], marks[place], missing = job, '1', missing + 1
                wanted[job] = (wanted[job] or 0) + 1
              end
            end
            if missing == 0 then return out end
            -- `kept`: the jobs before the last one that was found, without those that were found. Large jobs are read one by one.
            local at, bytes, before, step, isWhole = 0, 0, 0, 1, false
            while source and found < missing and at < 2000 and bytes < 1048576 do
              local piece = redis.call('LRANGE', source, at, at + step - 1)
              for _, job in ipairs(piece) do
                at, bytes = at + 1, bytes + #job
                if (wanted[job] or 0) > 0 then
                  wanted[job] = wanted[job] - 1
                  found, cut, before = found + 1, at, #kept
                else
                  kept[#kept + 1] = job
                end
              end
              isWhole = #piece < step
              if isWhole then break end
              step = math.max(1, math.min(200, math.floor(131072 * at / (bytes + 1))))
            end
            local claimed, adopted = unpack(redis.call('HMGET', KEYS[5], 'claimed', 'adopted'))
            redis.call('DEL', KEYS[1])
            -- As in `settle`, each command is tried without an effect.
            redis.call('RPUSH', KEYS[1], '') redis.call('LPUSH', KEYS[1], '') redis.call('LTRIM', KEYS[1], 0, 0)
            redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[3], 'number', ARGV[2])
            redis.call('DEL', chunk)
            redis.call('RPUSH', chunk, unpack(jobs, 1, size))
            redis.call('HSET', KEYS[4], number, level .. ':' .. table.concat(marks))
            if level == 3 then redis.call('HSET', KEYS[3], 'alone', number) end
            if cut > 0 then redis.call('LTRIM', source, cut, -1) end
            for place = before, 1, -1 do redis.call('LPUSH', source, kept[place]) end
            if missing > found and (source and not isWhole or (tonumber(claimed) or 0) > (tonumber(adopted) or 0)) then
              redis.pcall('HINCRBY', KEYS[5], 'maybe_duplicate', missing - found)
            end
            redis.pcall('HINCRBY', KEYS[5], 'claimed', missing)
            redis.pcall('HINCRBY', KEYS[5], 'adopted', missing)
            out[1], out[2] = missing, found
            return out
            """)

    /// For `at_most_once`, which does not read the lists of recovered jobs: moves their jobs to the head of Q.
    ///
    /// KEYS: nothing, Q, recovered:1, :2, :3. Replies the number of moved jobs.
    static let merge = Script(
        """
        local moved = 0
        redis.call('LLEN', KEYS[2])
        redis.call('DEL', KEYS[1])
        redis.call('RPOP', KEYS[1])
        for i = 5, 3, -1 do
          for _ = 1, 1000 do
            local job = redis.call('LINDEX', KEYS[i], -1)
            if not job then break end
            redis.call('LPUSH', KEYS[2], job)
            redis.call('RPOP', KEYS[i])
            moved = moved + 1
          end
        end
        return moved
        """)

    /// Moves jobs of a side list back to the head of Q in their order: at most 1,000, and about a megabyte.
    ///
    /// KEYS: nothing, workers, worker:W, the side list, Q, asides, holders. ARGV: W, number, 1 to do it only as the last
    /// registered worker that knows side lists. Replies the number of jobs that are left, or -1 if such workers are registered.
    static let restore = Script(
        noted + last + fence + """
            if ARGV[3] == '1' and not isLast(KEYS[2], KEYS[7], ARGV[1]) then return -1 end
            redis.call('LLEN', KEYS[5]) redis.call('HLEN', KEYS[6])
            redis.call('DEL', KEYS[1])
            -- Tried without an effect: without this right no job is pushed.
            redis.call('LTRIM', KEYS[4], 0, -1)
            local moved, size = 0, 0
            while moved < 1000 and size < 1048576 do
              local job = redis.call('LRANGE', KEYS[4], -1, -1)[1]
              if not job then break end
              redis.call('LPUSH', KEYS[5], job)
              redis.call('LTRIM', KEYS[4], 0, -2)
              moved, size = moved + 1, size + #job
            end
            return noted(KEYS[6], KEYS[4])
            """)

    /// Whether no other worker that knows side lists is registered: `holders` has a 2 for it.
    static let last = """
        local function isLast(workers, holders, own)
          for _, name in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
            if name ~= own and redis.call('HGET', holders, name) == '2' then return false end
          end
          return true
        end

        """

    /// Notes how many jobs a side list has, and returns the number.
    static let noted = """
        local function noted(asides, list)
          local app, left = string.sub(list, #asides + 1), redis.call('LLEN', list)
          if left == 0 then redis.pcall('HDEL', asides, app) else redis.pcall('HSET', asides, app, left) end
          return left
        end

        """

    /// For `at_most_once`: takes jobs from the head of a side list.
    ///
    /// KEYS: nothing, the side list, asides. ARGV: most jobs. Replies the number of jobs that are left, and the jobs.
    static let take = Script(
        noted + """
            redis.call('LLEN', KEYS[2]) redis.call('HLEN', KEYS[3])
            redis.call('DEL', KEYS[1])
            local jobs = redis.call('LRANGE', KEYS[2], 0, ARGV[1] - 1)
            redis.call('LTRIM', KEYS[2], #jobs, -1)
            table.insert(jobs, 1, noted(KEYS[3], KEYS[2]))
            return jobs
            """)

    /// Unregisters a worker that holds nothing. Replies the number of chunks that it still has, or -1 if it is the last one that
    /// knows side lists, and there are some; if not 0, nothing was done.
    ///
    /// KEYS: nothing, workers, worker:W, chunks:W, holders, asides. ARGV: W, number.
    package static let unregister = Script(
        last + fence + """
            local held = redis.call('HLEN', KEYS[4])
            if held == 0 and redis.call('HLEN', KEYS[6]) > 0 and isLast(KEYS[2], KEYS[5], ARGV[1]) then return -1 end
            if held == 0 then
              -- All are tried: a worker that is half unregistered could not call this again.
              redis.call('DEL', KEYS[1]) redis.call('HDEL', KEYS[5], '')
              redis.call('ZREM', KEYS[2], ARGV[1])
              redis.call('DEL', KEYS[3])
              redis.call('HDEL', KEYS[5], ARGV[1])
            end
            return held
            """)
}
