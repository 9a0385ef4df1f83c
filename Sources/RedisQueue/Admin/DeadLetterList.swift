/// The dead letters of one list, read in pages and changed in small steps.
///
/// Each step is one script, which Redis runs completely or not at all: a call that is killed between two steps, or whose
/// connection breaks, loses no letter and doubles no job. A step works at the head of the list (`GapList`).
public struct DeadLetterList: Sendable {
    /// Letters in a page, and so in a step. A step stops the server while it runs.
    public static let mostLetters = 100
    /// Bytes of a page; one letter may be larger.
    static let mostBytes = 1 << 20

    private let keys: Keys
    private let letters: GapList

    public init(_ keys: Keys) {
        self.keys = keys
        letters = GapList(nothing: keys.nothing, passed: keys.deadPassed, rest: keys.dead)
    }

    /// The change of one letter.
    public enum Change: Sendable, Equatable {
        /// The walk passes the letter.
        case keep
        /// `job` goes to the tail of the list.
        case requeue(job: [UInt8])
        /// The job in the hash of large jobs goes to the tail of the list unchanged.
        case requeueStored
        case drop
    }

    /// A letter and its change.
    public struct Step: Sendable, Equatable {
        public var record: [UInt8]
        public var change: Change
        /// The field of the hash of large jobs that has the job. It is removed with the letter.
        public var field: String?

        public init(record: [UInt8], change: Change, field: String? = nil) {
            self.record = record
            self.change = change
            self.field = field
        }
    }

    /// The number of letters, passed ones included.
    public func count(_ client: inout RedisClient) throws(RedisError) -> Int {
        try (client.command(["LLEN", keys.deadPassed]).count ?? 0) + (client.command(["LLEN", keys.dead]).count ?? 0)
    }

    /// Returns letters from an index on, oldest first; none behind the end. Passed letters come first.
    ///
    /// - Parameter beginnings: the number of bytes wanted of a record of the daemon, which begins with its reason; `nil` wants
    ///   whole records.
    public func page(
        from index: Int, beginnings: Int? = nil, most: Int = mostLetters, _ client: inout RedisClient
    ) throws(RedisError) -> [[UInt8]] {
        try page([keys.dead, keys.deadPassed], from: index, beginnings: beginnings, most: most, &client)
    }

    /// Returns the letters at which the next step works: the oldest that are not passed.
    public func head(most: Int = mostLetters, _ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        try page([keys.dead], from: 0, most: most, &client)
    }

    private func page(
        _ names: [String], from index: Int, beginnings: Int? = nil, most: Int, _ client: inout RedisClient
    ) throws(RedisError) -> [[UInt8]] {
        let numbers = [index, most, DeadLetterList.mostBytes, beginnings ?? 0].map(String.init)
        let reply = try client.command(["EVAL", DeadLetterList.pageScript, String(names.count)] + names + numbers)
        return (reply.items ?? []).compactMap(\.bytes)
    }

    /// Puts passed letters back. Returns the number of this step; 0 when none is left.
    public func putBack(_ client: inout RedisClient) throws(RedisError) -> Int { try letters.putBack(&client) }

    /// Returns a job of the hash of large jobs; `nil` if it is not there.
    public func storedJob(_ field: String, _ client: inout RedisClient) throws(RedisError) -> [UInt8]? {
        try client.command(["HGET", keys.large, field]).bytes
    }

    public func hasStoredJob(_ field: String, _ client: inout RedisClient) throws(RedisError) -> Bool {
        try client.command(["HEXISTS", keys.large, field]).integer == 1
    }

    /// Makes all changes in one step.
    ///
    /// - Parameter steps: the letters of `head`, each of them, from the first one on.
    /// - Returns: `false` when the list begins with other letters, because others removed some, or when a stored job is missing.
    ///   Then nothing was changed.
    public func apply(_ steps: [Step], _ client: inout RedisClient) throws(RedisError) -> Bool {
        if steps.isEmpty { return true }
        let head = [
            "EVAL", DeadLetterList.stepScript, "5", keys.nothing, keys.dead, keys.deadPassed, keys.list, keys.large,
        ]
        var command = head.map { Array($0.utf8) }
        for step in steps {
            command.append(step.record)
            switch step.change {
            case .keep: command += [Array("keep".utf8), []]
            case .requeue(let job): command += [Array("requeue".utf8), job]
            case .requeueStored: command += [Array("stored".utf8), []]
            case .drop: command += [Array("drop".utf8), []]
            }
            command.append(Array((step.field ?? "").utf8))
        }
        guard let done = try client.command(command).integer else { throw .notRedis("a step without a result") }
        return done >= 0
    }

    /// KEYS: dead, and passed if passed letters count. ARGV: first index, most letters, most bytes, bytes of a beginning (0:
    /// all).
    private static let pageScript = """
        local from, most, room, cut = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
        local out, bytes, count, passed = {}, 0, 1, KEYS[2] and redis.call('LLEN', KEYS[2]) or 0
        while #out < most do
          local key, at = KEYS[1], from + #out - passed
          if at < 0 then key, at = KEYS[2], from + #out end
          local part = redis.call('LRANGE', key, at, at + math.min(count, most - #out) - 1)
          if #part == 0 then return out end
          for _, record in ipairs(part) do
            bytes = bytes + #record
            if cut > 0 and #record > cut and string.sub(record, 1, 11) == '{"reason": ' then
              record = string.sub(record, 1, cut)
            end
            if #out > 0 and #record > room then return out end
            room = room - #record
            out[#out + 1] = record
          end
          -- Few at once while they are large, so that letters of megabytes do not become gigabytes.
          count = math.max(1, math.min(2 * count, 25, math.floor(\(mostBytes) * #out / bytes)))
        end
        return out
        """

    /// KEYS: nothing, dead, passed, Q, large. ARGV: record, change, job and field of a large job of each step. As in `Scripts`,
    /// the checks come first, then a DEL that lets the rest run without memory, and a job is added before its letter is
    /// removed.
    private static let stepScript =
        """
        for i = 1, #ARGV, 4 do
          local place = (i - 1) / 4
          if redis.call('LRANGE', KEYS[2], place, place)[1] ~= ARGV[i] then return -1 end
          if ARGV[i + 1] == 'stored' and redis.call('HEXISTS', KEYS[5], ARGV[i + 3]) == 0 then return -1 end
        end
        redis.call('LLEN', KEYS[3]) redis.call('LLEN', KEYS[4])

        """ + GapList.moves + """
            redis.call('HGET', KEYS[5], '') redis.call('HDEL', KEYS[5], '')
            local count = 0
            for i = 1, #ARGV, 4 do
              if ARGV[i + 1] == 'keep' then
                pass(KEYS[2], KEYS[3])
              else
                local job = ARGV[i + 1] == 'requeue' and ARGV[i + 2]
                if ARGV[i + 1] == 'stored' then job = redis.call('HGET', KEYS[5], ARGV[i + 3]) end
                if job then redis.call('RPUSH', KEYS[4], job) end
                if ARGV[i + 3] ~= '' then redis.call('HDEL', KEYS[5], ARGV[i + 3]) end
                redis.call('LTRIM', KEYS[2], 1, -1)
                count = count + 1
              end
            end
            return count
            """
}

/// The feedback entries of one list: read in pages, and removed after they were stored elsewhere.
public struct FeedbackList: Sendable {
    /// Entries in a page.
    public static let mostEntries = 100

    private let keys: Keys
    private let entries: WaitingJobs

    public init(_ keys: Keys) { (self.keys, entries) = (keys, WaitingJobs(keys)) }

    /// Returns entries from an index on, oldest first.
    public func page(from index: Int, most: Int = mostEntries, _ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        try entries.page(of: keys.feedback, from: index, most: min(most, FeedbackList.mostEntries), &client).map(\.element)
    }

    /// Removes entries that were read from the beginning of the list. If others have removed the first ones meanwhile, only the
    /// rest is removed.
    ///
    /// - Returns: the number of removed entries; 0 if the list does not begin with any of them.
    public func remove(_ page: [[UInt8]], _ client: inout RedisClient) throws(RedisError) -> Int {
        if page.isEmpty { return 0 }
        let command = ["EVAL", FeedbackList.removeScript, "1", keys.feedback].map { Array($0.utf8) } + page
        return try client.command(command).count ?? 0
    }

    private static let removeScript = """
        local head = redis.call('LRANGE', KEYS[1], 0, #ARGV - 1)
        for skipped = 0, #ARGV - 1 do
          local count, equal = #ARGV - skipped, true
          for i = 1, count do
            if head[i] ~= ARGV[skipped + i] then equal = false break end
          end
          if equal then
            redis.call('LTRIM', KEYS[1], count, -1)
            return count
          end
        end
        return 0
        """
}
