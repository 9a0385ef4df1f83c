/// Moves the jobs of a dead worker D, which `Lease.observed` finds, in the order of their claims, to the lists of recovered jobs,
/// one crash further. A job with a scope keeps its rank. A job that was alone at a crash goes to a chunk of the caller. Nothing
/// happens unless the heartbeat counter is the one that was seen (-1: D is not registered), for at least the lease that D has
/// published.
///
/// Records of the last 64 dead workers are kept in `stats`, where all values are numbers: `reaped:D`, the last settlement,
/// and `taken:D|since|known|chunks`, the time in ms; the name has two fields of D and the numbers of its chunks. A worker
/// that returns and has settled more, or has chunks that were not taken over, had another Redis.
///
/// Replies -1 when D may be alive, else the number of jobs moved to the lists, the kind of the recovered jobs, and the
/// suspects; or `LISTS` and the numbers of the chunks of D, if a list of them is not among KEYS; or `TAKEN` if the number for
/// suspects is in use.
struct Takeover: Equatable {
    struct Dead: Equatable {
        var worker: String
        /// Its jobs are taken over only if its counter is still this one.
        var counter: Int64
        /// The time for which the counter stood still: the worker's own lease may not be longer. `nil` if its process is gone.
        var silence: Duration?
    }

    var dead: Dead
    /// The number of the chunk for suspects.
    var chunk: UInt64
    /// The numbers of the chunks of the dead worker, as a former reply has named them.
    var lists: [String] = []

    enum Argument: String, CaseIterable { case dead, counter, chunk, silence }

    func write(_ argument: Argument, to out: inout [UInt8]) {
        switch argument {
        case .dead: out.appendArgument(dead.worker)
        case .counter: out.appendArgument(String(dead.counter))
        case .chunk: out.appendArgument(chunk)
        case .silence: out.appendArgument(dead.silence.map { String(Int($0 / .milliseconds(1))) } ?? "")
        }
    }

    /// The keys of this call, in the order of the script.
    ///
    /// - Parameter worker: the caller.
    func keys(_ keys: Keys, worker: String) -> [String] {
        let theirs = [keys.worker(dead.worker), keys.inflight(dead.worker), keys.chunks(dead.worker)]
        return theirs + [keys.chunk(worker, chunk)] + lists.map { "\(keys.chunks(dead.worker)):\($0)" }
    }

    private static let listsWanted = "LISTS"

    /// `suspects` is the list of a chunk of the caller, and `lists` are those of the chunks of the dead worker.
    static let script = Script(
        [.nothing, .workers, .worker, .chunks, .stats, .once, .twice, .thrice, .holders],
        more: ["deadWorker", "deadInflight", "deadChunks", "suspects", "lists"], arguments: Argument.allCases.map(\.rawValue),
        Lua.clock + Lua.ranks + Lua.waiting + Lua.abridged + Lua.fence + """
            local seen = redis.call('ZSCORE', KEYS.workers, ARGV.dead)
            if tonumber(seen or -1) ~= tonumber(ARGV.counter) then return {-1, 0} end
            local lease, silence = redis.pcall('HGET', KEYS.deadWorker, 'lease'), tonumber(ARGV.silence)
            if silence and type(lease) == 'string' and silence < (tonumber(lease) or 0) then return {-1, 0} end
            for i = KEY.once, KEY.thrice do redis.call('LLEN', KEYS[i]) end
            redis.call('HLEN', KEYS.holders)
            local function sorted(key)
              local fields = {}
              for _, field in ipairs(redis.call('HKEYS', key)) do
                local number, level = string.match(field, '^(%d+):?(%d*)$')
                fields[#fields + 1] = {field, tonumber(number) or 0, tonumber(level) or 0}
              end
              table.sort(fields, function(a, b) return a[2] < b[2] end)
              return fields
            end
            local older, chunks, declared, unknown = sorted(KEYS.deadInflight), sorted(KEYS.deadChunks), {}, false
            for i = KEY.lists, #KEYS do declared[KEYS[i]] = true end
            for _, chunk in ipairs(chunks) do unknown = unknown or not declared[KEYS.deadChunks .. ':' .. chunk[1]] end
            if unknown then
              local numbers = {'\(Takeover.listsWanted)'}
              for i, chunk in ipairs(chunks) do numbers[i + 1] = chunk[1] end
              return numbers
            end
            for i = KEY.lists, #KEYS do redis.call('LLEN', KEYS[i]) end
            if redis.call('HEXISTS', KEYS.chunks, ARGV.chunk) == 1 or redis.call('EXISTS', KEYS.suspects) == 1 then
              return '\(Lua.Status.taken)'
            end
            redis.call('DEL', KEYS.nothing)
            -- As in `settle`, each command is tried without an effect.
            redis.call('LRANGE', KEYS.nothing, 0, 0) redis.call('HSET', KEYS.worker, 'number', ARGV.number)
            redis.call('ZREM', KEYS.workers, '') redis.call('HDEL', KEYS.holders, '')
            local now = math.floor(clock())
            local out, moved, most = {0, 0}, 0, \(ChunkEntry.mostJobs)
            local function move(job, level)
              if level >= 3 and #out - 2 < most then
                redis.call('RPUSH', KEYS.suspects, job)
                out[#out + 1] = abridged(job)
              else
                redis.call('RPUSH', KEYS[KEY.once + math.min(level, 2)], job)
                moved = moved + 1
              end
            end
            for _, entry in ipairs(older) do move(redis.call('HGET', KEYS.deadInflight, entry[1]), entry[3]) end
            for _, chunk in ipairs(chunks) do
              local list, entry = KEYS.deadChunks .. ':' .. chunk[1], redis.call('HGET', KEYS.deadChunks, chunk[1])
              local level, letters = tonumber(string.sub(entry, 1, 1)) or 0, string.match(entry, '%l+$')
              local rank = letters and rankOf(letters)
              for place = 3, #entry do
                local job = string.sub(entry, place, place) == '1' and redis.call('LRANGE', list, place - 3, place - 3)[1]
                if job then move(rank and ranked(job, rank + place - 2) or job, level) end
              end
            end
            if #out > 2 then redis.call('HSET', KEYS.chunks, ARGV.chunk, '4:' .. string.rep('1', #out - 2)) end
            local settled = redis.pcall('HGET', KEYS.deadWorker, 'settled')
            local evidence, taken = redis.pcall('HMGET', KEYS.deadWorker, 'since', 'known', 'taken'), {}
            if not evidence.err and evidence[3] and string.find(evidence[3], '^%d[%d,]*$') then taken[1] = evidence[3] end
            for _, chunk in ipairs(chunks) do
              redis.call('DEL', KEYS.deadChunks .. ':' .. chunk[1])
              if string.find(chunk[1], '^%d+$') then taken[#taken + 1] = chunk[1] end
            end
            redis.call('DEL', KEYS.deadWorker, KEYS.deadInflight, KEYS.deadChunks)
            redis.call('ZREM', KEYS.workers, ARGV.dead)
            redis.call('HDEL', KEYS.holders, ARGV.dead)
            local stats = redis.pcall('HKEYS', KEYS.stats)
            if type(settled) == 'string' and not stats.err then
              local known, records = {}, {}
              for _, field in ipairs(stats) do
                local name = string.match(field, '^taken:([^|]*)|')
                if name then
                  if redis.pcall('HEXISTS', KEYS.stats, 'reaped:' .. name) ~= 1 or name == ARGV.dead then
                    redis.pcall('HDEL', KEYS.stats, field)
                  else
                    records[name] = field
                  end
                end
              end
              for _, field in ipairs(stats) do
                local name = string.match(field, '^reaped:(.*)$')
                if name and name ~= ARGV.dead then
                  known[#known + 1] = {name, records[name] and tonumber(redis.pcall('HGET', KEYS.stats, records[name])) or 0}
                end
              end
              table.sort(known, function(a, b) return a[2] < b[2] end)
              for place = 1, #known - 63 do
                local name = known[place][1]
                redis.pcall('HDEL', KEYS.stats, 'reaped:' .. name, records[name] or '')
              end
              local since, lowest = tonumber(evidence[1] or ''), tonumber(evidence[2] or '')
              local record = string.format('taken:%s|%s|%s|%s', ARGV.dead, since and evidence[1] or '',
                lowest and evidence[2] or '', table.concat(taken, ','))
              local time = string.format('%d', now)
              redis.pcall('HSET', KEYS.stats, 'reaped:' .. ARGV.dead, settled, record, time)
            end
            local all = moved + #out - 2
            if moved > 0 then redis.pcall('HINCRBY', KEYS.stats, 'recovered', moved) end
            if all > 0 then redis.pcall('HINCRBY', KEYS.stats, 'maybe_duplicate', all) end
            out[1], out[2] = moved, waiting(KEYS.once, KEYS.twice, KEYS.thrice)
            return out
            """)

    enum Reply {
        /// The worker was seen alive, and nothing was done.
        case alive
        /// The chunks of the dead worker whose lists the call has to name.
        case lists([String])
        case moved(jobs: Int, recovered: Lua.Recovered, suspects: [Lua.Job])

        init?(_ items: [RedisReply]) {
            if items.first?.text == Takeover.listsWanted {
                self = .lists(items.dropFirst().compactMap(\.text))
                return
            }
            guard items.count >= 2, let moved = items[0].integer, let recovered = items[1].integer.flatMap(Lua.Recovered.init)
            else { return nil }
            let suspects = items.dropFirst(2).compactMap(Lua.Job.init)
            if suspects.count != items.count - 2 || suspects.count > ChunkEntry.mostJobs { return nil }
            self = moved < 0 ? .alive : .moved(jobs: items[0].count ?? 0, recovered: recovered, suspects: suspects)
        }
    }
}
