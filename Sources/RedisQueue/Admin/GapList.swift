/// A list that a call walks without looking into its middle, which takes Redis long in a list of hundreds of thousands.
///
/// The list is kept in two keys: the elements that the call has passed, and the rest. A step works at the border between them:
/// it looks at one end of each key and moves elements from one to the other. Both keys together are the list, in its order, at
/// every moment: a call that is killed, or a Redis that restarts, loses and repeats nothing. The next call puts the passed
/// elements back. Others may push at the tail and remove at the head meanwhile.
struct GapList: Sendable {
    /// Elements that one step moves.
    static let mostElements = 100
    /// Bytes that one step moves; one element may be larger.
    static let mostBytes = 1 << 20

    let nothing: String
    let passed: String
    let rest: String

    /// Puts passed elements back in front of the others.
    ///
    /// - Returns: the number of elements of this step; 0 when none is left.
    func putBack(_ client: inout RedisClient) throws(RedisError) -> Int {
        let numbers = [GapList.mostElements, GapList.mostBytes].map(String.init)
        return try client.command(["EVAL", GapList.putBackScript, "3", nothing, passed, rest] + numbers).count ?? 0
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
    private static let putBackScript =
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
