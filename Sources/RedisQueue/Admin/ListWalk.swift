/// Reads a list or a sorted set beside the queue in pages. One page stops the server for as long as it is read.
struct ListWalk: Sendable {
    /// Elements in a page.
    static let mostElements = 1000
    /// Bytes of a page; one element may be larger.
    static let mostBytes = 1 << 20

    var key: String
    /// The list with the elements before those of `key`: see `GapList`.
    var passed: String?
    /// Each element of a sorted set is followed by its score.
    var isSorted = false
    /// From the tail to the head: jobs are claimed at the head and pushed at the tail, so a place counted from the tail never
    /// moves past the reader.
    var fromTail = false
    /// The number of bytes wanted of a record of the daemon, which begins with its reason; `nil` wants whole elements.
    var beginnings: Int?

    init(_ key: String, passed: String? = nil, isSorted: Bool = false, fromTail: Bool = false) {
        (self.key, self.passed, self.isSorted, self.fromTail) = (key, passed, isSorted, fromTail)
    }

    /// Returns elements behind those that were read; none behind the end.
    func page(
        skipping read: Int, most: Int = mostElements, _ client: inout RedisClient
    ) throws(RedisError) -> (length: Int, elements: [[UInt8]]) {
        let numbers = [read, most, ListWalk.mostBytes, beginnings ?? 0, isSorted ? 1 : 0, fromTail ? 1 : 0]
        let keys = [key] + [passed].compactMap(\.self)
        let items = try client.evaluate(ListWalk.script, keys, numbers.map(String.init)).items ?? []
        return (items.first?.count ?? 0, items.dropFirst().compactMap(\.bytes))
    }

    /// Returns a function that reads a list, or a sorted set with its scores, in pieces from an index on. A piece has few
    /// elements, and fewer while they are large, so that jobs of megabytes do not become gigabytes.
    static let pieces = """
        local function pieces(key, at, sorted, backwards)
          local step, count, bytes, width = 1, 0, 0, sorted and 2 or 1
          return function(most)
            if at < 0 then return {} end
            local size = math.min(step, most)
            local first, last = at, at + size - 1
            if backwards then first, last = math.max(0, at - size + 1), at end
            local part
            if sorted then part = redis.call('ZRANGE', key, first, last, 'WITHSCORES')
            else part = redis.call('LRANGE', key, first, last) end
            if backwards then at = first - 1 else at = last + 1 end
            count = count + #part / width
            for _, text in ipairs(part) do bytes = bytes + #text end
            local fitting = math.floor(\(mostBytes) * count / math.max(1, bytes))
            step = math.max(1, math.min(2 * step, backwards and 8 or 25, fitting))
            return part
          end
        end

        """

    /// KEYS: the list or sorted set, and the list before it, if there is one. ARGV: number of elements that were read, most
    /// elements, most bytes, bytes of a beginning (0: all), 1 for a sorted set, 1 to read from the tail on. Replies the length
    /// and the elements.
    private static let script =
        pieces + """
            local read, most, room, cut = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
            local sorted, backwards = ARGV[5] == '1', ARGV[6] == '1'
            local length = redis.call(sorted and 'ZCARD' or 'LLEN', KEYS[1])
            local passed = KEYS[2] and redis.call('LLEN', KEYS[2]) or 0
            local out, taken, width, isPassed = {length + passed}, 0, sorted and 2 or 1, read < passed
            local nextPart = pieces(KEYS[1], backwards and length - 1 - read or read - passed, sorted, backwards)
            if isPassed then nextPart = pieces(KEYS[2], read) end
            while taken < most do
              local part = nextPart(most - taken)
              if #part == 0 then
                if not isPassed then break end
                isPassed, nextPart = false, pieces(KEYS[1], 0)
              end
              local first, last, step = 1, #part, width
              if backwards then first, last, step = #part - width + 1, 1, -width end
              for i = first, last, step do
                local text = part[i]
                if cut > 0 and #text > cut and string.sub(text, 1, 11) == '{"reason": ' then text = string.sub(text, 1, cut) end
                if taken > 0 and #text > room then return out end
                room, taken = room - #text, taken + 1
                out[#out + 1] = text
                if sorted then out[#out + 1] = part[i + 1] end
              end
            end
            return out
            """

    /// Runs a command with a cursor until the cursor is 0 again, or `body` returns false. `body` gets what each reply has found.
    ///
    /// - Parameter options: the arguments behind the cursor.
    static func scan(
        _ client: inout RedisClient, _ command: [String], _ options: [String] = [], _ body: ([RedisReply]) -> Bool
    ) throws(RedisError) {
        var cursor = "0"
        repeat {
            let reply = try client.command(command + [cursor] + options)
            guard let parts = reply.items, parts.count == 2, let next = parts[0].text else {
                throw .notRedis("a scan without a cursor")
            }
            if !body(parts[1].items ?? [parts[1]]) { return }
            cursor = next
        } while cursor != "0"
    }
}

/// A list that a call walks and changes without looking into its middle, which takes Redis long in a list of hundreds of
/// thousands.
///
/// The list is kept in two keys: the elements that the call has passed, and the rest. A step works at the border between them:
/// it looks at one end of each key and moves elements from one to the other. Both keys together are the list, in its order, at
/// every moment: a call that is killed, or a Redis that restarts, loses and repeats nothing. The next call puts the passed
/// elements back. Others may push at the tail and remove at the head meanwhile.
struct GapList: Sendable {
    /// Elements that one step moves.
    private static let mostElements = 100

    let nothing: String
    let passed: String
    let rest: String

    /// All elements.
    var walk: ListWalk { ListWalk(rest, passed: passed) }

    /// Puts passed elements back in front of the others: about a megabyte.
    ///
    /// - Returns: the number of elements of this step; 0 when none is left.
    func putBack(_ client: inout RedisClient) throws(RedisError) -> Int {
        let numbers = [GapList.mostElements, ListWalk.mostBytes].map(String.init)
        return try client.evaluate(GapList.putBackScript, [nothing, passed, rest], numbers).count ?? 0
    }

    /// Tries every command that moves elements on KEYS[1], which exists only during the script: without the right to one of
    /// them, nothing may have changed. The functions `pass` and `unpass` move one element between the ends. LMOVE repeats no
    /// bytes in the append-only file; Redis before 6.2 has none, and a user may lack the right to it.
    static let moves = """
        redis.call('DEL', KEYS[1])
        redis.call('RPUSH', KEYS[1], '') redis.call('LPUSH', KEYS[1], '')
        redis.call('LTRIM', KEYS[1], 1, -1) redis.call('LTRIM', KEYS[1], 1, -1)
        local tried = redis.pcall('LMOVE', KEYS[1], KEYS[1], 'LEFT', 'RIGHT')
        local canMove = type(tried) ~= 'table' or not tried.err
        local function pass(from, to)
          if canMove then redis.call('LMOVE', from, to, 'LEFT', 'RIGHT') return end
          redis.call('RPUSH', to, redis.call('LRANGE', from, 0, 0)[1])
          redis.call('LTRIM', from, 1, -1)
        end
        local function unpass(from, to)
          if canMove then redis.call('LMOVE', from, to, 'RIGHT', 'LEFT') return end
          redis.call('LPUSH', to, redis.call('LRANGE', from, -1, -1)[1])
          redis.call('LTRIM', from, 0, -2)
        end

        """

    /// KEYS: nothing, passed, rest. ARGV: most elements, most bytes. A key of a wrong type fails before anything has changed.
    static let putBackScript =
        """
        local count, room = 0, tonumber(ARGV[2])
        redis.call('LLEN', KEYS[3])
        if redis.call('LLEN', KEYS[2]) == 0 then return 0 end

        """ + moves + """
            while count < tonumber(ARGV[1]) and room > 0 do
              local last = redis.call('LRANGE', KEYS[2], -1, -1)[1]
              if not last then break end
              room = room - #last
              unpass(KEYS[2], KEYS[3])
              count = count + 1
            end
            return count
            """
}
