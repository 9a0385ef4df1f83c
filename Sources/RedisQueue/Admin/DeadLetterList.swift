/// The dead letters of one list, read in pages and changed in small steps.
///
/// Each step is one script, which Redis runs completely or not at all: a call that is killed between two steps, or whose
/// connection breaks, loses no letter and doubles no job. A step works at the head of the list (`GapList`).
public struct DeadLetterList: Sendable {
    /// Letters in a page, and so in a step. A step stops the server while it runs.
    public static let mostLetters = 100
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
        var walk = letters.walk
        walk.beginnings = beginnings
        return try walk.page(skipping: index, most: most, &client).elements
    }

    /// Returns the letters at which the next step works: the oldest that are not passed.
    public func head(most: Int = mostLetters, _ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        try ListWalk(keys.dead).page(skipping: 0, most: most, &client).elements
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
        let arguments = steps.map { step -> [[UInt8]] in
            let field = Array((step.field ?? "").utf8)
            switch step.change {
            case .keep: return [step.record, Array("keep".utf8), [], field]
            case .requeue(let job): return [step.record, Array("requeue".utf8), job, field]
            case .requeueStored: return [step.record, Array("stored".utf8), [], field]
            case .drop: return [step.record, Array("drop".utf8), [], field]
            }
        }
        let touched = [keys.nothing, keys.dead, keys.deadPassed, keys.list, keys.large]
        return try client.step(DeadLetterList.stepScript, touched, Array(arguments.joined()))
    }

    /// KEYS: nothing, dead, passed, Q, large. ARGV: record, change, job and field of a large job of each step. As in `Scripts`,
    /// the checks come first, then a DEL that lets the rest run without memory, and a job is added before its letter is
    /// removed.
    static let stepScript =
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

    public init(_ keys: Keys) { self.keys = keys }

    /// Returns entries from an index on, oldest first.
    public func page(from index: Int, most: Int = mostEntries, _ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        try ListWalk(keys.feedback).page(skipping: index, most: min(most, FeedbackList.mostEntries), &client).elements
    }

    /// Removes entries that were read from the beginning of the list. If others have removed the first ones meanwhile, only the
    /// rest is removed.
    ///
    /// - Returns: the number of removed entries; 0 if the list does not begin with any of them.
    public func remove(_ page: [[UInt8]], _ client: inout RedisClient) throws(RedisError) -> Int {
        if page.isEmpty { return 0 }
        return try client.evaluate(FeedbackList.removeScript, [keys.feedback], page).count ?? 0
    }

    static let removeScript = """
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
