/// The dead letters of one list, read in pages and changed in small steps.
///
/// Each step is one script, which Redis runs completely or not at all: a call that is killed between two steps, or whose
/// connection breaks, loses no letter and doubles no job.
public struct DeadLetterList: Sendable {
    /// Letters in a page, and so in a step. A step stops the server while it runs.
    public static let mostLetters = 100
    /// Bytes of a page; one letter may be larger.
    static let mostBytes = 1 << 20

    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    /// The change of one letter.
    public enum Change: Sendable, Equatable {
        /// `job` goes to the tail of the list.
        case requeue(job: [UInt8])
        /// The job in the hash of large jobs goes to the tail of the list unchanged.
        case requeueStored
        case drop
    }

    /// A letter, the index at which it was seen, and its change.
    public struct Step: Sendable, Equatable {
        /// Counted from the oldest, which is 0.
        public var index: Int
        public var record: [UInt8]
        public var change: Change
        /// The field of the hash of large jobs that has the job. It is removed with the letter.
        public var field: String?

        public init(index: Int, record: [UInt8], change: Change, field: String? = nil) {
            self.index = index
            self.record = record
            self.change = change
            self.field = field
        }
    }

    public func count(_ client: inout RedisClient) throws(RedisError) -> Int {
        try client.command(["LLEN", keys.dead]).count ?? 0
    }

    /// Returns letters from an index on, oldest first; none behind the end.
    ///
    /// - Parameter beginnings: the number of bytes wanted of a record of the daemon, which begins with its reason; `nil` wants
    ///   whole records.
    public func page(
        from index: Int, beginnings: Int? = nil, most: Int = mostLetters, _ client: inout RedisClient
    ) throws(RedisError) -> [[UInt8]] {
        let numbers = [index, most, DeadLetterList.mostBytes, beginnings ?? 0].map(String.init)
        let reply = try client.command(["EVAL", DeadLetterList.pageScript, "1", keys.dead] + numbers)
        return (reply.items ?? []).compactMap(\.bytes)
    }

    /// Returns a job of the hash of large jobs; `nil` if it is not there.
    public func storedJob(_ field: String, _ client: inout RedisClient) throws(RedisError) -> [UInt8]? {
        try client.command(["HGET", keys.large, field]).bytes
    }

    public func hasStoredJob(_ field: String, _ client: inout RedisClient) throws(RedisError) -> Bool {
        try client.command(["HEXISTS", keys.large, field]).integer == 1
    }

    /// Makes all changes in one step.
    ///
    /// - Returns: `false` when a record is not where it was seen, because others removed letters, or when a stored job is
    ///   missing. Then nothing was changed.
    public func apply(_ steps: [Step], _ client: inout RedisClient) throws(RedisError) -> Bool {
        if steps.isEmpty { return true }
        let head = [
            "EVAL", DeadLetterList.stepScript, "4", keys.nothing, keys.dead, keys.list, keys.large, MarkedRemoval.marker(),
        ]
        var command = head.map { Array($0.utf8) }
        for step in steps {
            command.append(Array(String(step.index).utf8))
            command.append(step.record)
            switch step.change {
            case .requeue(let job): command += [Array("requeue".utf8), job]
            case .requeueStored: command += [Array("stored".utf8), []]
            case .drop: command += [Array("drop".utf8), []]
            }
            command.append(Array((step.field ?? "").utf8))
        }
        guard let done = try client.command(command).integer else { throw .notRedis("a step without a result") }
        return done >= 0
    }

    /// ARGV: first index, most letters, most bytes, bytes of a beginning (0: all).
    private static let pageScript = """
        local from, most, room, cut = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
        local out = {}
        while #out < most do
          local at = from + #out
          local part = redis.call('LRANGE', KEYS[1], at, at + math.min(25, most - #out) - 1)
          if #part == 0 then return out end
          for _, record in ipairs(part) do
            if cut > 0 and #record > cut and string.sub(record, 1, 11) == '{"reason": ' then
              record = string.sub(record, 1, cut)
            end
            if #out > 0 and #record > room then return out end
            room = room - #record
            out[#out + 1] = record
          end
        end
        return out
        """

    /// KEYS: nothing, dead, Q, large. ARGV: a text that is no letter, then index, record, change, job and field of a large job
    /// of each step. As in `Scripts`, the checks come first, then a DEL that lets the rest run without memory, and jobs are added
    /// before letters are removed.
    private static let stepScript = """
        for i = 2, #ARGV, 5 do
          if redis.call('LINDEX', KEYS[2], ARGV[i]) ~= ARGV[i + 1] then return -1 end
          if ARGV[i + 2] == 'stored' and redis.call('HEXISTS', KEYS[4], ARGV[i + 4]) == 0 then return -1 end
        end
        redis.call('LLEN', KEYS[3])
        \(MarkedRemoval.trial)
        redis.call('HGET', KEYS[4], '') redis.call('HDEL', KEYS[4], '')
        local count = 0
        for i = 2, #ARGV, 5 do
          local job = ARGV[i + 2] == 'requeue' and ARGV[i + 3]
          if ARGV[i + 2] == 'stored' then job = redis.call('HGET', KEYS[4], ARGV[i + 4]) end
          if job then redis.call('RPUSH', KEYS[3], job) end
          if ARGV[i + 4] ~= '' then redis.call('HDEL', KEYS[4], ARGV[i + 4]) end
          redis.call('LSET', KEYS[2], ARGV[i], ARGV[1])
          count = count + 1
        end
        local fromTail = tonumber(ARGV[2]) * 2 > redis.call('LLEN', KEYS[2])
        redis.call('LREM', KEYS[2], fromTail and -count or count, ARGV[1])
        return count
        """
}
