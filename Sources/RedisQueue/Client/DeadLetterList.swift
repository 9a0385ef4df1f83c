/// The dead letters of one list as an operator's call walks them: read in pages, changed in small steps.
///
/// Each step is one script: Redis carries it out whole or not at all, so that a call which is killed between two steps, or whose
/// connection breaks, has neither lost a letter nor doubled a job.
public struct DeadLetterList: Sendable {
    /// Letters in a page, and so in a step: small, for a step stops the server while it runs.
    public static let mostLetters = 100
    /// Bytes of a page; one letter may be larger.
    static let mostBytes = 1 << 20

    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    /// What becomes of one letter.
    public enum Change: Sendable, Equatable {
        /// `job` goes to the tail of the list.
        case requeue(job: [UInt8])
        case drop
    }

    /// A letter, where it was seen, and what becomes of it.
    public struct Step: Sendable, Equatable {
        /// From the oldest, which is 0.
        public var index: Int
        public var record: [UInt8]
        public var change: Change

        public init(index: Int, record: [UInt8], change: Change) {
            self.index = index
            self.record = record
            self.change = change
        }
    }

    public func count(_ client: inout RedisClient) throws(RedisError) -> Int {
        try Int(client.command(["LLEN", keys.dead]).integer ?? 0)
    }

    /// Letters from an index on, oldest first; none behind the end.
    ///
    /// - Parameter beginnings: how many bytes of a record are wanted, for one that begins with its reason as the daemon's do; `nil`
    ///   wants records whole.
    public func page(
        from index: Int, beginnings: Int? = nil, most: Int = mostLetters, _ client: inout RedisClient
    ) throws(RedisError) -> [[UInt8]] {
        let numbers = [index, most, DeadLetterList.mostBytes, beginnings ?? 0].map(String.init)
        let reply = try client.command(["EVAL", DeadLetterList.pageScript, "1", keys.dead] + numbers)
        return (reply.items ?? []).compactMap(\.bytes)
    }

    /// Makes all changes in one step.
    ///
    /// - Returns: `false` when a record is not where it was seen (others took letters away): then nothing was changed.
    public func apply(_ steps: [Step], _ client: inout RedisClient) throws(RedisError) -> Bool {
        if steps.isEmpty { return true }
        // No letter is a text that nobody could know before.
        let stone = (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 16) }.joined(separator: "-")
        var command = ["EVAL", DeadLetterList.stepScript, "3", keys.nothing, keys.dead, keys.list, stone].map { Array($0.utf8) }
        for step in steps {
            command.append(Array(String(step.index).utf8))
            command.append(step.record)
            switch step.change {
            case .requeue(let job): command += [Array("requeue".utf8), job]
            case .drop: command += [Array("drop".utf8), []]
            }
        }
        guard let done = try client.command(command).integer else { throw .notRedis("no word of a step") }
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

    /// KEYS: nothing, dead, Q. ARGV: a text that is no letter, then index, record, change and job of each step. What Scripts.swift
    /// says of all scripts holds here: first the checks, then a DEL that makes the rest pass, and added before removed.
    private static let stepScript = """
        for i = 2, #ARGV, 4 do
          if redis.call('LINDEX', KEYS[2], ARGV[i]) ~= ARGV[i + 1] then return -1 end
        end
        redis.call('LLEN', KEYS[3])
        redis.call('DEL', KEYS[1])
        local count = 0
        for i = 2, #ARGV, 4 do
          if ARGV[i + 2] == 'requeue' then redis.call('RPUSH', KEYS[3], ARGV[i + 3]) end
          redis.call('LSET', KEYS[2], ARGV[i], ARGV[1])
          count = count + 1
        end
        local fromTail = tonumber(ARGV[2]) * 2 > redis.call('LLEN', KEYS[2])
        redis.call('LREM', KEYS[2], fromTail and -count or count, ARGV[1])
        return count
        """
}
