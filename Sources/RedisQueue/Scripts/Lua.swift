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
