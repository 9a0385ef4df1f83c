/// Moves jobs to a new chunk of the worker: from `once`, from `twice`, one from `thrice` if the worker holds nothing else, or
/// from the list. The caller reads the list of the chunk with LRANGE, in the same write.
///
/// SORT copies the jobs, and no job passes through Lua. Redis estimates the bytes of a list by its first nodes of 8 KiB. The
/// script asks for the nodes of at least as many jobs as it takes: otherwise SORT would also copy large jobs that are behind
/// small ones. Redis knows the bytes of the short list of a chunk. Where this user may not run SORT or MEMORY, the script
/// copies the jobs itself. A job of more than 24 MiB goes to the chunk with the next number, which the caller does not read.
///
/// It takes nothing while the whole list is paused. The reply is `TAKEN`, and nothing changes, if one of the two numbers is
/// in use: then another process has the name of this worker, or this process was put back in time.
///
/// With the key `asides`, `list` is the side list of an app, and `once` to `thrice` are nothing. From slots, the call is
/// `SlotClaim`.
///
/// Replies drained (1: the list has no more; with the pauses, if any), the number of jobs, the number of crashes at which they
/// were in flight, 1 for a job that is too large (and 2 more where the script has copied the jobs), the kind of the recovered
/// jobs, and the rank before the first job.
struct Claim: Equatable {
    /// Of the first claims, until the speed of the link is known.
    static let firstBytes = 512 << 10

    /// The number of the new chunk. The next number is for a job that is too large.
    var chunk: UInt64
    var count: Int
    /// Most jobs that were in flight at two crashes.
    var fromSecond: Int
    /// One job may exceed them.
    var mostBytes = firstBytes
    /// The claim is sent behind the wait on the second connection, and runs when the wait ends. It takes nothing if this
    /// worker has given jobs back in a settlement later than this one, because that would change the order.
    var after: UInt64?
    var source = Source.list

    /// From where it takes jobs.
    enum Source: Equatable {
        case list
        /// The side list of this app.
        case aside(String)
        /// The slots of this app. The claims of the other workers may have older jobs of the same scopes.
        case slots(String, others: [String])
        /// The tokens of the campaign with this name that began at this time, with `CampaignClaim`.
        case campaign(String, created: String)
    }

    var campaign: String? { if case .campaign(let id, _) = source { id } else { nil } }

    var isPiggybacked: Bool { after != nil }

    enum Argument: String, CaseIterable { case chunk, count, bytes, second, after }

    /// Only a piggybacked claim has the last one.
    var arguments: ArraySlice<Argument> { after == nil ? Argument.allCases.dropLast() : Argument.allCases[...] }

    func write(_ argument: Argument, to out: inout [UInt8]) {
        switch argument {
        case .chunk: out.appendArgument(chunk)
        case .count: out.appendArgument(count)
        case .bytes: out.appendArgument(mostBytes)
        case .second: out.appendArgument(fromSecond)
        case .after: out.appendArgument(after ?? 0)
        }
    }

    /// `jobs` and `following` are the lists of the chunk, and of the chunk with the next number.
    static let script = Script(
        [.nothing, .workers, .worker, .chunks, .stats, .once, .twice, .thrice, .list, .paused],
        more: ["jobs", "following", "asides"], arguments: Argument.allCases.map(\.rawValue),
        Lua.clock + Lua.pauses + Lua.waiting + Lua.noted + Lua.fence + """
            local paused, whole, hasRecovered = nil, false, false
            if redis.call('EXISTS', KEYS.once, KEYS.twice, KEYS.thrice, KEYS.paused) > 0 then
              paused, whole = pauses(KEYS.paused)
              if whole then return {paused, 0, 0, 0, 0} end
              hasRecovered = not KEYS.asides and redis.call('EXISTS', KEYS.once, KEYS.twice, KEYS.thrice) > 0
            end
            if state[3] and redis.call('HEXISTS', KEYS.chunks, state[3]) == 1 then return {with(paused, 0), 0, 0, 0, 0} end
            if ARGV.after and tonumber(state[4] or 0) > tonumber(ARGV.after) then return {with(paused, 0), 0, 0, 0, 0} end
            local list, level, most, room = KEYS.list, 0, tonumber(ARGV.count), tonumber(ARGV.bytes)
            if hasRecovered then
              local held, second = redis.call('HLEN', KEYS.chunks), tonumber(ARGV.second)
              if redis.call('EXISTS', KEYS.once) == 1 then
                list, level = KEYS.once, 1
              elseif second > 0 and redis.call('EXISTS', KEYS.twice) == 1 then
                list, level, most = KEYS.twice, 2, math.min(most, second)
              elseif held == 0 and redis.call('EXISTS', KEYS.thrice) == 1 then
                list, level, most = KEYS.thrice, 3, 1
              end
            end
            local length = redis.call('LLEN', list)
            if length == 0 then
              if KEYS.asides then
                noted(KEYS.asides, list)
              elseif redis.call('HEXISTS', KEYS.stats, 'old_jobs') == 1 then
                redis.pcall('HDEL', KEYS.stats, 'old_jobs')
              end
              return {with(paused, 1), 0, 0, 0, hasRecovered and waiting(KEYS.once, KEYS.twice, KEYS.thrice) or 0}
            end
            most = math.min(most, length)
            local number, following, chunk, flags = ARGV.chunk, string.format('%d', ARGV.chunk + 1), KEYS.jobs, 0
            local taken = redis.call('HMGET', KEYS.chunks, number, following)
            if taken[1] or taken[2] or redis.call('EXISTS', KEYS.jobs, KEYS.following) > 0 then return '\(Lua.Status.taken)' end
            -- Both are tried: without the first, a failed claim could not be undone; without the second, it would be repeated.
            redis.call('DEL', KEYS.nothing) redis.call('LTRIM', KEYS.nothing, 0, 0)
            local ranks = redis.call('HMGET', KEYS.stats, 'rank', 'old_jobs', 'old_rank')
            local rank = tonumber(ranks[1] or '')
            if not rank then
              -- The data set is older than ranks, or the counters were removed.
              rank = math.floor(clock() * 1000)
              redis.pcall('HSET', KEYS.stats, 'rank', string.format('%.0f', rank))
            end
            -- The jobs that were in the list at a registration: see `Registration`.
            local old = level == 0 and not KEYS.asides and ranks[3] and tonumber(ranks[2] or '') or 0
            if old > 0 then most, rank = math.min(most, old), tonumber(ranks[3] or '') or rank end
            local function enlarge() number, chunk, flags = following, KEYS.following, 1 end
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
              local letters = string.gsub(string.format('%.0f', rank), '.', function(digit)
                return string.char(string.byte(digit) + \(ChunkEntry.digits.lowerBound - UInt8(ascii: "0")))
              end)
              redis.call('HSET', KEYS.chunks, number, level .. ':' .. string.rep('1', most) .. letters)
              if level == 3 then redis.call('HSET', KEYS.worker, 'alone', number) end
              redis.call('LTRIM', list, most, -1)
            end
            local isMoved, fault = pcall(move)
            if not isMoved then
              redis.pcall('HDEL', KEYS.chunks, number)
              redis.pcall('DEL', KEYS.jobs, KEYS.following)
              error(fault, 0)
            end
            if KEYS.asides then
              noted(KEYS.asides, list)
              redis.pcall('HINCRBY', KEYS.stats, 'aside_claimed', most)
            end
            redis.pcall('HINCRBY', KEYS.stats, 'claimed', most)
            redis.pcall('HINCRBY', KEYS.stats, old > 0 and 'old_rank' or 'rank', most)
            if old > 0 then redis.pcall('HINCRBY', KEYS.stats, 'old_jobs', -most) end
            redis.pcall('HINCRBY', KEYS.worker, 'claimed', most)
            local drained = level == 0 and most == length and 1 or 0
            return {
              with(paused, drained), most, level, flags, hasRecovered and waiting(KEYS.once, KEYS.twice, KEYS.thrice) or 0, rank
            }
            """)

    struct Reply {
        var isDrained: Bool
        var pauses: [QueuePause]
        /// The number of jobs in the new chunk.
        var count: Int
        /// The number of crashes at which they were in flight.
        var level: UInt8
        /// The job is too large, and its chunk has the next number.
        var isLarge: Bool
        /// The script has copied the jobs, because Redis refuses SORT or MEMORY.
        var isSlow: Bool
        var recovered: Lua.Recovered
        /// Of a claim from the list: the rank before the first job; `nil` if it is unknown.
        var rank: UInt64?
        /// Of a claim from slots: when the next one has something to do, and what has been in flight for long.
        var due = Lua.NextDue.unknown
        var reviews: [(scope: [UInt8], claim: ClaimID, holder: String)] = []
        /// Where Redis keeps no jobs in flight.
        var jobs: [Lua.Job] = []
        /// Of a claim from a campaign: milliseconds until the next one, or a negative number. See `CampaignClaim`.
        var wait: Int64 = 0

        init?(_ items: [RedisReply], to claim: Claim? = nil) {
            guard items.count >= 5, let (drained, pauses) = QueuePause.split(items[0]), let count = items[1].count,
                count <= ChunkEntry.mostJobs, let level = items[2].integer, (0..<4).contains(level), let flags = items[3].integer,
                let recovered = items[4].integer.flatMap(Lua.Recovered.init)
            else { return nil }
            (isDrained, self.pauses, self.count, self.level) = (drained == 1, pauses, count, UInt8(level))
            (isLarge, isSlow, self.recovered) = (flags & 1 != 0, flags & 2 != 0, recovered)
            guard items.count > 5, let last = items[5].integer else { return }
            switch claim?.source {
            case .campaign: wait = last
            case .slots:
                due = Lua.NextDue(last)
                jobs = items.count > 7 ? items[7].items?.compactMap(Lua.Job.init) ?? [] : []
                var rest = items.count > 6 ? items[6].items?[...] ?? [] : []
                while let scope = rest.popFirst()?.bytes, let id = rest.popFirst()?.text, let holder = rest.popFirst()?.text {
                    if let id = UInt64(id) { reviews.append((scope, ClaimID(id), holder)) }
                }
            default: rank = UInt64(clamping: min(last, 1 << 53))
            }
        }
    }
}
