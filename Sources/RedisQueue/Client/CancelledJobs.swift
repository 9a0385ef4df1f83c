/// Moves jobs that no worker holds to the list of cancelled jobs, and back.
///
/// Each step is one script, which Redis runs completely or not at all: a call that is killed between two steps loses no job and
/// doubles none. A step names every job by its place and its bytes, and changes nothing if one of them is not there.
public struct CancelledJobs: Sendable {
    /// Jobs that one step moves.
    public static let mostJobs = 100
    /// Pushes since the page was read that a step follows.
    private static let mostShift = 1000

    public struct Move: Sendable, Equatable {
        /// Counted from the tail, which is 1. Unused for a delayed job.
        public var fromTail: Int
        public var element: [UInt8]
        /// The record in the list of cancelled jobs.
        public var record: [UInt8]

        public init(fromTail: Int, element: [UInt8], record: [UInt8]) {
            (self.fromTail, self.element, self.record) = (fromTail, element, record)
        }
    }

    private let keys: Keys

    public init(_ keys: Keys) { self.keys = keys }

    public struct Entry: Sendable, Equatable {
        public var element: [UInt8]
        /// The score of a delayed job, as Redis writes it.
        public var due: String?
    }

    /// Returns elements from the tail on; of the delayed jobs, those that are due last.
    public func page(of source: WaitingJobs.Source, skipping read: Int, _ client: inout RedisClient) throws(RedisError) -> [Entry]
    {
        guard source == .delayed else {
            return try tailPage(keys.key(of: source), skipping: read, &client).map { Entry(element: $0) }
        }
        let items = try tailPage(keys.delayed, skipping: read, isSorted: true, &client)
        return stride(from: 0, to: items.count - 1, by: 2).map {
            Entry(element: items[$0], due: String(decoding: items[$0 + 1], as: UTF8.self))
        }
    }

    /// Returns records from the tail on: the last cancelled job first.
    public func records(
        skipping read: Int, most: Int = QueueScan.mostElements, _ client: inout RedisClient
    ) throws(RedisError) -> [[UInt8]] {
        try tailPage(keys.cancelled, skipping: read, most: min(most, QueueScan.mostElements), &client)
    }

    private func tailPage(
        _ key: String, skipping read: Int, most: Int = QueueScan.mostElements, isSorted: Bool = false,
        _ client: inout RedisClient
    ) throws(RedisError) -> [[UInt8]] {
        let numbers = [read, most, QueueScan.mostBytes].map(String.init)
        let kind = isSorted ? ["sorted"] : []
        let items = try client.command(["EVAL", QueueScan.tailScript, "1", key] + numbers + kind).items ?? []
        return items.dropFirst().compactMap(\.bytes)
    }

    /// Moves jobs to the list of cancelled jobs.
    ///
    /// - Parameter moves: in rising order of `fromTail`.
    /// - Returns: false if a job is not at its place; then nothing was changed.
    public func cancel(_ moves: [Move], from source: WaitingJobs.Source, _ client: inout RedisClient) throws(RedisError) -> Bool {
        if moves.isEmpty { return true }
        let script = source == .delayed ? CancelledJobs.delayedScript : CancelledJobs.listScript
        var touched = [keys.nothing, keys.key(of: source), keys.cancelled]
        if case .aside = source { touched.append(keys.asides) }
        let head =
            ["EVAL", script, String(touched.count)] + touched + [MarkedRemoval.marker(), String(CancelledJobs.mostShift)]
        return try run(head, moves.map { [Array(String($0.fromTail).utf8), $0.element, $0.record] }, &client)
    }

    public struct Restore: Sendable, Equatable {
        /// Of the record, counted from the tail, which is 1.
        public var fromTail: Int
        public var record: [UInt8]
        public var element: [UInt8]
        /// The score of a delayed job; `nil` for any other, which goes to the tail of the list.
        public var due: String?

        public init(fromTail: Int, record: [UInt8], element: [UInt8], due: String?) {
            (self.fromTail, self.record, self.element, self.due) = (fromTail, record, element, due)
        }
    }

    /// Puts jobs back. The arguments and the result are as those of `cancel`.
    public func restore(_ jobs: [Restore], _ client: inout RedisClient) throws(RedisError) -> Bool {
        if jobs.isEmpty { return true }
        let head = [
            "EVAL", CancelledJobs.restoreScript, "4", keys.nothing, keys.cancelled, keys.list, keys.delayed,
            MarkedRemoval.marker(),
        ]
        let steps = jobs.map { [Array(String($0.fromTail).utf8), $0.record, $0.element, Array(($0.due ?? "").utf8)] }
        return try run(head, steps, &client)
    }

    private func run(_ head: [String], _ steps: [[[UInt8]]], _ client: inout RedisClient) throws(RedisError) -> Bool {
        guard let done = try client.command(head.map { Array($0.utf8) } + steps.joined()).integer else {
            throw .notRedis("a step without a result")
        }
        return done >= 0
    }

    /// KEYS: nothing, list, cancelled, and asides for a side list. ARGV: marker, most pushes, then place, element and record of
    /// each. As in `Scripts`, the checks come first, then a DEL that lets the rest run without memory, and jobs are added before
    /// they are removed.
    ///
    /// The elements are read until twice the bytes of a page are used: those of a page, and as many that were pushed since.
    private static let listScript =
        QueueScan.pieces + Scripts.noted + """
            local near, far = tonumber(ARGV[3]), tonumber(ARGV[#ARGV - 2])
            local length, room = redis.call('LLEN', KEYS[2]), \(2 * QueueScan.mostBytes)
            local span, nextPart = {}, pieces(KEYS[2], length - near)
            local function at(place)
              while #span <= place - near and room > 0 do
                local part = nextPart()
                if #part == 0 then break end
                for i = #part, 1, -1 do
                  room = room - #part[i]
                  span[#span + 1] = part[i]
                end
              end
              return span[place - near + 1]
            end
            local shift = -1
            for pushed = 0, tonumber(ARGV[2]) do
              local equal = true
              for i = 3, #ARGV, 3 do
                if at(tonumber(ARGV[i]) + pushed) ~= ARGV[i + 1] then equal = false break end
              end
              if equal then shift = pushed break end
            end
            if shift < 0 then return -1 end
            redis.call('LLEN', KEYS[3])
            \(MarkedRemoval.trial)
            local count = 0
            for i = 3, #ARGV, 3 do
              redis.call('RPUSH', KEYS[3], ARGV[i + 2])
              redis.call('LSET', KEYS[2], -(tonumber(ARGV[i]) + shift), ARGV[1])
              count = count + 1
            end
            redis.call('LREM', KEYS[2], far * 2 < length and -count or count, ARGV[1])
            if KEYS[4] then noted(KEYS[4], KEYS[2]) end
            return count
            """

    /// As `listScript`; the places are not used. A job that was promoted meanwhile is not there any more.
    private static let delayedScript = """
        for i = 3, #ARGV, 3 do
          if not redis.call('ZSCORE', KEYS[2], ARGV[i + 1]) then return -1 end
        end
        redis.call('LLEN', KEYS[3])
        redis.call('DEL', KEYS[1])
        redis.call('ZREM', KEYS[2], '')
        for i = 3, #ARGV, 3 do
          redis.call('RPUSH', KEYS[3], ARGV[i + 2])
          redis.call('ZREM', KEYS[2], ARGV[i + 1])
        end
        return 1
        """

    /// KEYS: nothing, cancelled, Q, delayed. ARGV: marker, then place, record, element and due time (or nothing) of each.
    private static let restoreScript = """
        for i = 2, #ARGV, 4 do
          if redis.call('LINDEX', KEYS[2], -tonumber(ARGV[i])) ~= ARGV[i + 1] then return -1 end
        end
        redis.call('LLEN', KEYS[3])
        \(MarkedRemoval.trial)
        redis.call('ZADD', KEYS[4], 'XX', 0, '')
        local count = 0
        for i = 2, #ARGV, 4 do
          if ARGV[i + 3] == '' then
            redis.call('RPUSH', KEYS[3], ARGV[i + 2])
          else
            redis.call('ZADD', KEYS[4], ARGV[i + 3], ARGV[i + 2])
          end
          redis.call('LSET', KEYS[2], -tonumber(ARGV[i]), ARGV[1])
          count = count + 1
        end
        redis.call('LREM', KEYS[2], -count, ARGV[1])
        return count
        """
}
