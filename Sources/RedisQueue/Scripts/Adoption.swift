/// Puts jobs of a chunk that a worker holds in memory back into Redis, after Redis was emptied or put back to an earlier
/// state. It can be sent again: a job that the chunk has in flight is skipped.
///
/// Redis may have the jobs where they were before the claim. The script looks for them near the head of that list, and moves
/// those that it finds, so that they are not pushed twice. The others count as `maybe_duplicate`, unless the script has read
/// the whole list and nothing was claimed in this data set: they may be further back, or another worker may have claimed them
/// since. A job with `tokens` counts once for each token. A token of a campaign also counts if the list has jobs or a campaign
/// has begun: the audience may have it again. Of a job that is too large only the beginning is given: it is moved if it is at
/// the head. Jobs with a scope that were before one that is moved get their ranks here, because the places in the list change.
///
/// Replies the number of jobs that were put back, the number of those that were found, and the positions of jobs that are too
/// large and were not found.
struct Adoption: Equatable {
    struct Job: Equatable {
        var place: Int
        var bytes: [UInt8]
        /// The number of bytes of a job of which only the beginning is held.
        var fullSize: Int?
    }

    var chunk: UInt64
    /// The number of crashes at which its jobs were in flight.
    var level: UInt8
    /// The number of positions of the chunk.
    var positions: Int
    /// The end of its entry: see `ChunkEntry.rank`.
    var rank: [UInt8] = []
    var jobs: [Job]

    /// `jobs`: position, size ('' where all of it follows) and bytes of each.
    enum Argument: String, CaseIterable { case chunk, level, positions, rank, jobs }

    var argumentCount: Int { Argument.allCases.count - 1 + 3 * jobs.count }

    func write(_ argument: Argument, to out: inout [UInt8]) {
        switch argument {
        case .chunk: out.appendArgument(chunk)
        case .level: out.appendArgument(Int(level))
        case .positions: out.appendArgument(positions)
        case .rank: out.appendArgument(rank)
        case .jobs:
            for job in jobs {
                out.appendArgument(job.place)
                out.appendArgument(job.fullSize.map { String($0) } ?? "")
                out.appendArgument(job.bytes)
            }
        }
    }

    /// `jobs` is the list of the chunk.
    static let script = Script(
        [.nothing, .workers, .worker, .chunks, .stats, .once, .twice, .thrice, .list], more: ["jobs"],
        arguments: Argument.allCases.map(\.rawValue),
        Lua.clock + Lua.ranks + Lua.fence + """
            local function tokens(job)
              local array = string.match(job, '"tokens"%s*:%s*(%b[])')
              return array and select(2, string.gsub(array, ',', '')) + 1 or 1
            end
            local function unranked(job)
              return string.find(job, '"\(RankMark.key)"', 1, true) and string.gsub(job, '"\(RankMark.key)":%d+,', '', 1) or job
            end
            local number, level, size = ARGV.chunk, tonumber(ARGV.level), tonumber(ARGV.positions)
            local chunk, entry = KEYS.jobs, redis.call('HGET', KEYS.chunks, number)
            local source = level == 0 and KEYS.list or level < 4 and KEYS[KEY.once + level - 1]
            local jobs, marks = entry and redis.call('LRANGE', chunk, 0, -1) or {}, {}
            if entry then size = math.max(size, #(string.match(entry, '^..([01]*)') or '')) end
            for place = 1, size do
              marks[place] = entry and string.sub(entry, place + 2, place + 2) == '1' and '1' or '0'
              jobs[place] = jobs[place] or ''
            end
            local out, wanted, missing, found, cut, kept = {0, 0}, {}, 0, 0, 0, {}
            for i = ARG.jobs, #ARGV, 3 do
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
                local plain = unranked(job)
                wanted[plain] = (wanted[plain] or 0) + 1
              end
            end
            if missing == 0 then return out end
            local stats = redis.call('HMGET', KEYS.stats, 'claimed', 'adopted', 'old_jobs', 'old_rank', 'audiences')
            local claimed, adopted, rank = tonumber(stats[1] or '') or 0, tonumber(stats[2] or '') or 0, tonumber(stats[4] or '')
            -- The jobs of the list whose ranks are known: see `Claim`.
            local old = level == 0 and rank and tonumber(stats[3] or '') or 0
            -- `kept`: the jobs before the last one that was found, without those that were found. Large jobs are read one by one.
            local at, bytes, before, step, isWhole = 0, 0, 0, 1, false
            while source and found < missing and at < 2000 and bytes < 1048576 do
              local piece = redis.call('LRANGE', source, at, at + step - 1)
              for _, job in ipairs(piece) do
                at, bytes = at + 1, bytes + #job
                local plain = unranked(job)
                if (wanted[plain] or 0) > 0 then
                  wanted[plain] = wanted[plain] - 1
                  found, cut, before = found + 1, at, #kept
                else
                  kept[#kept + 1] = at <= old and ranked(job, rank + at) or job
                end
              end
              isWhole = #piece < step
              if isWhole then break end
              step = math.max(1, math.min(200, math.floor(131072 * at / (bytes + 1))))
            end
            local now = string.format('%d', math.floor(clock()))
            redis.call('DEL', KEYS.nothing)
            -- As in `settle`, each command is tried without an effect.
            redis.call('RPUSH', KEYS.nothing, '') redis.call('LPUSH', KEYS.nothing, '') redis.call('LTRIM', KEYS.nothing, 0, 0)
            redis.call('DEL', KEYS.nothing)
            redis.call('HSET', KEYS.worker, 'number', ARGV.number)
            redis.call('DEL', chunk)
            redis.call('RPUSH', chunk, unpack(jobs, 1, size))
            redis.call('HSET', KEYS.chunks, number, level .. ':' .. table.concat(marks) .. ARGV.rank)
            if level == 3 then redis.call('HSET', KEYS.worker, 'alone', number) end
            if cut > 0 then redis.call('LTRIM', source, cut, -1) end
            for place = before, 1, -1 do redis.call('LPUSH', source, kept[place]) end
            if missing > found then
              local isUnsure, hasAudience, pushes = source and not isWhole or claimed > adopted, at > 0 or stats[5], 0
              for job, count in pairs(wanted) do
                local isToken = string.sub(job, 1, 1) == 'c'
                if count > 0 and (isUnsure or isToken and hasAudience) then pushes = pushes + count * tokens(job) end
              end
              if pushes > 0 then redis.pcall('HINCRBY', KEYS.stats, 'maybe_duplicate', pushes) end
            end
            redis.pcall('HINCRBY', KEYS.stats, 'claimed', missing)
            redis.pcall('HINCRBY', KEYS.stats, 'adopted', missing)
            local taken = math.min(found, math.max(old, 0))
            if taken > 0 then
              redis.pcall('HINCRBY', KEYS.stats, 'old_jobs', -taken)
              redis.pcall('HINCRBY', KEYS.stats, 'old_rank', taken)
            end
            -- Jobs that are pushed from now on have higher ranks, also if the clock of this server is behind.
            local highest = (rankOf(ARGV.rank) or 0) + size
            if highest > (tonumber(redis.pcall('HGET', KEYS.stats, 'rank') or '') or 0) then
              redis.pcall('HSET', KEYS.stats, 'rank', string.format('%.0f', highest))
            end
            redis.pcall('HSET', KEYS.stats, 'rolled_back', now)
            out[1], out[2] = missing, found
            return out
            """)

    struct Reply {
        /// The positions of jobs that are too large and were not found.
        var lost: [Int]

        init?(_ items: [RedisReply]) {
            guard items.count >= 2, items[0].count != nil, items[1].count != nil else { return nil }
            lost = items.dropFirst(2).compactMap(\.count)
        }
    }
}
