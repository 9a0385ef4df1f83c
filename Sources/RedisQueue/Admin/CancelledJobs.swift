/// Moves jobs that no worker holds to the list of cancelled jobs, and back.
///
/// Each step is one script, which Redis runs completely or not at all: a call that is killed between two steps loses no job and
/// doubles none. A step names every job by its place and its bytes, and changes nothing if one of them is not there.
public struct CancelledJobs: Sendable {
    /// Jobs that one step moves.
    public static let mostJobs = 100
    /// Pushes since the page was read that a step follows.
    private static let mostShift = 1000
    /// Jobs of a list in which a step may look into the middle.
    private static let mostInPlace = 10_000

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
    private let records: GapList

    public init(_ keys: Keys) {
        self.keys = keys
        records = GapList(nothing: keys.nothing, passed: keys.cancelledPassed, rest: keys.cancelled)
    }

    public struct Entry: Sendable, Equatable {
        public var element: [UInt8]
        /// The score of a delayed job, as Redis writes it.
        public var due: String?
        /// Of a job in a slot: its field in the hash `states`, by which it is removed.
        public var field: [UInt8]?

        public init(element: [UInt8], due: String? = nil, field: [UInt8]? = nil) {
            (self.element, self.due, self.field) = (element, due, field)
        }
    }

    /// Returns elements from the tail on; of the delayed jobs, those that are due last.
    public func page(of source: WaitingJobs.Source, skipping read: Int, _ client: inout RedisClient) throws(RedisError) -> [Entry]
    {
        if source == .states {
            let states = try WaitingStates(keys).page(from: read, fromTail: true, &client)
            return states.map { Entry(element: $0.job, field: $0.field) }
        }
        let walk = ListWalk(keys.key(of: source), isSorted: source == .delayed, fromTail: true)
        let elements = try walk.page(skipping: read, &client).elements
        if !walk.isSorted { return elements.map { Entry(element: $0) } }
        return pairs(elements).map { Entry(element: $0, due: String(decoding: $1, as: UTF8.self)) }
    }

    /// Returns records from an index on, the first cancelled job first. Passed records come first.
    public func records(from index: Int, _ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        try records.walk.page(skipping: index, &client).elements
    }

    /// Returns the first records that are not passed, in their order.
    public func nextRecords(_ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        try ListWalk(keys.cancelled).page(skipping: 0, most: CancelledJobs.mostJobs, &client).elements
    }

    /// Returns the last passed records, the last one first.
    public func passedRecords(most: Int, _ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        let walk = ListWalk(keys.cancelledPassed, fromTail: true)
        return try walk.page(skipping: 0, most: min(most, CancelledJobs.mostJobs), &client).elements
    }

    /// Puts passed records back. Returns the number of this step; 0 when none is left.
    public func putBack(_ client: inout RedisClient) throws(RedisError) -> Int { try records.putBack(&client) }

    /// Passes the first records of `nextRecords`.
    ///
    /// - Returns: false if others have changed the list; then nothing was changed.
    public func pass(_ page: [[UInt8]], _ client: inout RedisClient) throws(RedisError) -> Bool {
        if page.isEmpty { return true }
        return try client.step(CancelledJobs.passScript, [keys.nothing, keys.cancelledPassed, keys.cancelled], page)
    }

    /// Moves jobs to the list of cancelled jobs.
    ///
    /// - Parameter moves: in rising order of `fromTail`.
    /// - Returns: false if a job is not at its place; then nothing was changed.
    public func cancel(_ moves: [Move], from source: WaitingJobs.Source, _ client: inout RedisClient) throws(RedisError) -> Bool {
        if moves.isEmpty { return true }
        let script =
            switch source {
            case .delayed: CancelledJobs.delayedScript
            case .states: CancelledJobs.statesScript
            default: CancelledJobs.listScript
            }
        var touched = [keys.nothing, keys.key(of: source), keys.cancelled]
        if source == .states { touched += [keys.slots, keys.states, keys.paced, keys.asides] }
        if case .aside = source { touched.append(keys.asides) }
        let head = [CancelledJobs.marker(), String(CancelledJobs.mostShift)].map { Array($0.utf8) }
        let arguments = moves.flatMap { [Array(String($0.fromTail).utf8), $0.element, $0.record] }
        return try client.step(script, touched, head + arguments)
    }

    /// Whether a list is so long that its middle is far away for Redis: then `sweep` is much faster than `cancel`.
    public func isLong(_ source: WaitingJobs.Source, _ client: inout RedisClient) throws(RedisError) -> Int? {
        if source == .delayed || source == .states { return nil }
        let length = try client.command(["LLEN", keys.key(of: source)]).count ?? 0
        return length > CancelledJobs.mostInPlace ? length : nil
    }

    /// Returns the first elements of a list.
    public func head(of source: WaitingJobs.Source, _ client: inout RedisClient) throws(RedisError) -> [[UInt8]] {
        try ListWalk(keys.key(of: source)).page(skipping: 0, &client).elements
    }

    /// A job that `sweep` moves: the place counts from the head, which is 0.
    public typealias Sweep = (place: Int, record: [UInt8])

    /// Takes the first elements of a list away: some of them go to the list of cancelled jobs, and the others to a side list,
    /// from which `returnSwept` puts them back. Daemons do the same if the call is killed: no app has this side list.
    ///
    /// - Parameters:
    ///   - page: the elements of `head`, or the first of them.
    ///   - moves: in rising order of their places.
    /// - Returns: false if the list begins with other elements; then nothing was changed.
    public func sweep(
        _ page: ArraySlice<[UInt8]>, _ moves: [Sweep], from source: WaitingJobs.Source, _ client: inout RedisClient
    ) throws(RedisError) -> Bool {
        guard let first = page.first, let last = page.last else { return true }
        var touched = [keys.nothing, keys.key(of: source), keys.aside(Keys.sweptName), keys.asides, keys.cancelled]
        if case .aside = source { touched.append(keys.key(of: source)) }
        let head = [Array(String(page.count).utf8), first, last]
        let arguments = moves.flatMap { place, record in
            [Array(String(place).utf8), page[page.startIndex + place], record]
        }
        return try client.step(CancelledJobs.sweepScript, touched, head + arguments)
    }

    /// Puts the elements back that sweeps have passed. Returns the number of this step; 0 when none is left.
    public func returnSwept(to source: WaitingJobs.Source, _ client: inout RedisClient) throws(RedisError) -> Int {
        var touched = [keys.nothing, keys.aside(Keys.sweptName), keys.key(of: source), keys.asides]
        if case .aside = source { touched.append(keys.key(of: source)) }
        return try client.evaluate(CancelledJobs.returnScript, touched, [String(ListWalk.mostElements)]).count ?? 0
    }

    /// A passed record, and its change.
    public struct Restore: Sendable, Equatable {
        public enum Change: Sendable, Equatable {
            /// The record returns behind the border.
            case keep
            /// The job goes to the tail of the list.
            case push([UInt8])
            /// The element goes to the delayed jobs, with its score.
            case delay([UInt8], due: String)
        }

        public var record: [UInt8]
        public var change: Change

        public init(record: [UInt8], change: Change) { (self.record, self.change) = (record, change) }
    }

    /// Changes the last passed records.
    ///
    /// - Parameter steps: the records of `passedRecords`, each of them, from the first one on.
    /// - Returns: false if others have changed the list; then nothing was changed.
    public func restore(_ steps: [Restore], _ client: inout RedisClient) throws(RedisError) -> Bool {
        if steps.isEmpty { return true }
        let arguments = steps.flatMap { step -> [[UInt8]] in
            switch step.change {
            case .keep: [step.record, Array("keep".utf8), [], []]
            case .push(let job): [step.record, Array("push".utf8), job, []]
            case .delay(let element, let due): [step.record, Array("delay".utf8), element, Array(due.utf8)]
            }
        }
        let touched = [keys.nothing, keys.cancelledPassed, keys.cancelled, keys.list, keys.delayed]
        return try client.step(CancelledJobs.restoreScript, touched, arguments)
    }

    /// Returns a random text, which no element equals. A script sets each element that it removes to it, and then removes these.
    private static func marker() -> String {
        (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 16) }.joined(separator: "-")
    }

    /// Tries the commands on KEYS[1], which exists only during the script. Without the right to one of them, a call that is
    /// repeated would add its jobs again.
    private static let trial = """
        redis.call('DEL', KEYS[1])
        redis.call('RPUSH', KEYS[1], '') redis.call('LSET', KEYS[1], 0, '') redis.call('LREM', KEYS[1], 0, '')

        """

    /// KEYS: nothing, list, cancelled, and asides for a side list. ARGV: marker, most pushes, then place, element and record of
    /// each. As in `Scripts`, the checks come first, then a DEL that lets the rest run without memory, and jobs are added before
    /// they are removed.
    ///
    /// The elements are read until twice the bytes of a page are used: those of a page, and as many that were pushed since.
    static let listScript =
        ListWalk.pieces + Lua.noted + """
            local near, far = tonumber(ARGV[3]), tonumber(ARGV[#ARGV - 2])
            local length, room = redis.call('LLEN', KEYS[2]), \(2 * ListWalk.mostBytes)
            local span, nextPart = {}, pieces(KEYS[2], length - near, false, true)
            local function at(place)
              while #span <= place - near and room > 0 do
                local part = nextPart(8)
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
            \(trial)
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
    static let delayedScript = """
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

    /// As `listScript`, with the fields of the jobs in place of the elements. KEYS: nothing, waiting, cancelled, slots, states,
    /// paced, asides. A claim finds that nothing waits in the slot.
    static let statesScript =
        Lua.clock + Slots.functions + """
            local S = slotsOf(KEYS[4], KEYS[5], KEYS[2], KEYS[6], KEYS[7], math.floor(clock()))
            for i = 3, #ARGV, 3 do
              if redis.call('HEXISTS', KEYS[5], ARGV[i + 1]) == 0 then return -1 end
            end
            S.try({})
            redis.call('LLEN', KEYS[3])
            redis.call('DEL', KEYS[1])
            redis.call('RPUSH', KEYS[1], '') redis.call('DEL', KEYS[1])
            redis.call('HSET', KEYS[1], '', '') redis.call('DEL', KEYS[1])
            S.tryWrites()
            for i = 3, #ARGV, 3 do
              redis.call('RPUSH', KEYS[3], ARGV[i + 2])
              S.withdraw(ARGV[i + 1])
            end
            return 1
            """

    /// KEYS: nothing, list, passed, asides, cancelled, and the list again if it is a side list. ARGV: the number of elements of
    /// the page, its first and its last element, then place, element and record of each cancelled job. `restore` puts the last
    /// record of a pass back first: the records of a page are therefore added in reverse order.
    static let sweepScript =
        Lua.noted + """
            local count = tonumber(ARGV[1])
            local function at(place) return redis.call('LRANGE', KEYS[2], place, place)[1] end
            if at(0) ~= ARGV[2] or at(count - 1) ~= ARGV[3] then return -1 end
            for i = 4, #ARGV, 3 do
              if at(tonumber(ARGV[i])) ~= ARGV[i + 1] then return -1 end
            end
            redis.call('LLEN', KEYS[3]) redis.call('HLEN', KEYS[4]) redis.call('LLEN', KEYS[5])
            -- The names of side lists are noted without a fault: the rights to them are tried.
            redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], '', '') redis.call('DEL', KEYS[1])
            redis.call('HDEL', KEYS[4], '')

            """ + GapList.moves + """
            for i = #ARGV - 2, 4, -3 do redis.call('RPUSH', KEYS[5], ARGV[i + 2]) end
            local nextMove = 4
            for place = 0, count - 1 do
              if ARGV[nextMove] and tonumber(ARGV[nextMove]) == place then
                redis.call('LTRIM', KEYS[2], 1, -1)
                nextMove = nextMove + 3
              else
                pass(KEYS[2], KEYS[3])
              end
            end
            noted(KEYS[4], KEYS[3])
            if KEYS[6] then noted(KEYS[4], KEYS[6]) end
            return count
            """

    /// KEYS: nothing, passed, list, asides, and the list again if it is a side list. ARGV: most elements.
    static let returnScript =
        Lua.noted + """
            if redis.call('LLEN', KEYS[2]) == 0 then return 0 end
            redis.call('LLEN', KEYS[3]) redis.call('HLEN', KEYS[4])
            -- The names of side lists are noted without a fault: the rights to them are tried.
            redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], '', '') redis.call('DEL', KEYS[1])
            redis.call('HDEL', KEYS[4], '')

            """ + GapList.moves + """
            local count = math.min(tonumber(ARGV[1]), redis.call('LLEN', KEYS[2]))
            for i = 1, count do unpass(KEYS[2], KEYS[3]) end
            noted(KEYS[4], KEYS[2])
            if KEYS[5] then noted(KEYS[4], KEYS[5]) end
            return count
            """

    /// KEYS: nothing, passed, cancelled. ARGV: the first records of cancelled.
    static let passScript =
        """
        for i = 1, #ARGV do
          if redis.call('LRANGE', KEYS[3], i - 1, i - 1)[1] ~= ARGV[i] then return -1 end
        end
        redis.call('LLEN', KEYS[2])

        """ + GapList.moves + """
            for i = 1, #ARGV do pass(KEYS[3], KEYS[2]) end
            return #ARGV
            """

    /// KEYS: nothing, passed, cancelled, Q, delayed. ARGV: record, change, element and due time (or nothing) of each, the last
    /// passed record first.
    static let restoreScript =
        """
        local count = #ARGV / 4
        for i = 1, count do
          if redis.call('LRANGE', KEYS[2], -i, -i)[1] ~= ARGV[4 * i - 3] then return -1 end
        end
        redis.call('LLEN', KEYS[3]) redis.call('LLEN', KEYS[4])

        """ + GapList.moves + """
            redis.call('ZADD', KEYS[5], 'XX', 0, '')
            for i = 1, #ARGV, 4 do
              if ARGV[i + 1] == 'keep' then
                unpass(KEYS[2], KEYS[3])
              else
                if ARGV[i + 1] == 'push' then
                  redis.call('RPUSH', KEYS[4], ARGV[i + 2])
                else
                  redis.call('ZADD', KEYS[5], ARGV[i + 3], ARGV[i + 2])
                end
                redis.call('LTRIM', KEYS[2], 0, -2)
              end
            end
            return count
            """
}
