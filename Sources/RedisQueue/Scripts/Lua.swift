/// Functions that several scripts share, and the reading of their results.
enum Lua {
    /// The replies of a script that has done nothing.
    enum Status: String, CustomStringConvertible {
        /// The worker is not registered.
        case fenced = "FENCED"
        /// The number of the connection is not the current one.
        case stale = "STALE"
        /// Redis lacks the settlement or the claim before this call.
        case gap = "GAP"
        /// The number of a chunk is in use.
        case taken = "TAKEN"

        var description: String { rawValue }
    }

    /// Begins each call of a registered worker.
    static let fence = """
        if not redis.call('ZSCORE', KEYS.workers, ARGV.worker) then return '\(Status.fenced)' end
        local state = redis.call('HMGET', KEYS.worker, 'number', 'settled', 'alone', 'returned', 'launched')
        if state[1] ~= ARGV.number then return '\(Status.stale)' end

        """

    /// Redis' own clock, in milliseconds since 1970.
    static let clock = """
        local function clock()
          local time = redis.call('TIME')
          return time[1] * 1000 + time[2] / 1000
        end

        """

    /// `rankOf` reads the end of the entry of a chunk (see `ChunkEntry.rank`), and `ranked` returns a job with its rank if it has
    /// a scope and no rank (see `RankMark`).
    static let ranks = """
        local function rankOf(letters)
          local digits = string.gsub(letters, '.', function(letter)
            return string.char(string.byte(letter) - \(ChunkEntry.digits.lowerBound - UInt8(ascii: "0")))
          end)
          return tonumber(digits)
        end
        local function ranked(job, rank)
          if not string.find(job, '\(String(decoding: RankMark.replaces, as: UTF8.self))', 1, true) then return job end
          if string.find(job, '"\(RankMark.key)"', 1, true) then return job end
          local text = string.format('"\(RankMark.key)":%.0f,', rank)
          return (string.gsub(job, '^%s*{', function(brace) return brace .. text end, 1))
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

    /// The time until the first job in `delayed` is due.
    enum NextDue: Equatable {
        /// The script has not looked at `delayed`.
        case unknown
        case never
        case after(Duration)

        init(_ milliseconds: Int64) {
            switch milliseconds {
            case -1: self = .never
            case ..<0: self = .unknown
            default: self = .after(.milliseconds(min(milliseconds, 3_600_000)))  // No script replies more.
            }
        }
    }

    /// The pauses in force by Redis' clock, as a flat array: a place for a number, then field, milliseconds that are left (-1: no
    /// end) and record of each; `nil` when there is none. The second result tells whether the whole list is paused. With
    /// `cleans`, pauses that have ended are removed. Needs `clock`. `QueuePause.split` reads it.
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

    /// Adds the side lists to what `pauses` has returned: the app, -2 and the number of jobs of each; and the apps with slots:
    /// the app, -3 and the ms until one of them has something to do. Needs `pauses` and `clock`. `QueuePause.sideLists` and
    /// `QueuePause.slots` read it.
    static let asides = """
        local function asides(key, out)
          local apps = redis.call('HKEYS', key)
          if #apps == 0 then return out end
          out = out or {0}
          for i, count in ipairs(values(key, apps)) do
            local isOfSlots = string.sub(apps[i], 1, 1) == '\\1'
            out[#out + 1] = isOfSlots and string.sub(apps[i], 2) or apps[i]
            out[#out + 1] = isOfSlots and -3 or -2
            out[#out + 1] = isOfSlots and string.format('%.0f', math.max(0, (tonumber(count) or 0) - clock())) or count
          end
          return out
        end

        """

    /// The kind of the recovered jobs.
    static let waiting = """
        local function waiting(first, second, third)
          if redis.call('EXISTS', first, second, third) == 0 then return 0 end
          if redis.call('EXISTS', first, second) > 0 then return 1 end
          return 2
        end

        """

    /// The kind of the recovered jobs, as `waiting` returns it.
    enum Recovered: Int64 {
        case none = 0
        case some = 1
        /// Only jobs that must be alone in their worker.
        case isolated = 2
    }

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

    typealias Counters = [(worker: String, counter: Int64)]

    /// A sorted set's scores are doubles, sent as text; heartbeat counters are whole numbers.
    static func readCounters(_ items: ArraySlice<RedisReply>) -> Counters {
        var counters: Counters = []
        var rest = items
        while let worker = rest.popFirst()?.text, let score = rest.popFirst()?.text {
            if let counter = Int64(score) { counters.append((worker, counter)) }
        }
        return counters
    }

    /// Notes how many jobs a side list has, and returns the number.
    static let noted = """
        local function noted(asides, list)
          local app, left = string.sub(list, #asides + 1), redis.call('LLEN', list)
          if left == 0 then redis.pcall('HDEL', asides, app) else redis.pcall('HSET', asides, app, left) end
          return left
        end

        """

    /// Whether no other worker that knows side lists is registered: `holders` has a 2 for it.
    static let last = """
        local function isLast(workers, holders, own)
          for _, name in ipairs(redis.call('ZRANGE', workers, 0, -1)) do
            if name ~= own and redis.call('HGET', holders, name) == '2' then return false end
          end
          return true
        end

        """

    /// Of a job that is too large, only its size and its beginning are sent.
    static let abridged = """
        local function abridged(job)
          if not job or #job <= \(ClaimedJob.mostBytes) then return job end
          return {#job, string.sub(job, 1, \(ClaimedJob.headBytes))}
        end

        """

    /// A job as `abridged` returns it.
    struct Job {
        var bytes: [UInt8]
        /// The size of a job of which `bytes` is only the beginning.
        var fullSize: Int?

        init?(_ item: RedisReply) {
            if let bytes = item.bytes {
                self.bytes = bytes
                return
            }
            guard let items = item.items, items.count == 2, let size = items[0].count, let head = items[1].bytes else {
                return nil
            }
            (bytes, fullSize) = (head, size)
        }
    }
}
