/// Moves jobs of a side list back to the head of the list in their order: at most 1,000, and about a megabyte.
///
/// Replies the number of jobs that are left, or -1 if it was to be done by the last worker only and others are registered that
/// know side lists.
struct Restore: Equatable {
    var app: String
    /// At a stop only the last worker does this.
    var isStop: Bool

    /// `aside` is the side list.
    static let script = Script(
        [.nothing, .workers, .worker, .list, .asides, .holders], more: ["aside"], arguments: ["isStop"],
        Lua.noted + Lua.last + Lua.fence + """
            if ARGV.isStop == '1' and not isLast(KEYS.workers, KEYS.holders, ARGV.worker) then return -1 end
            redis.call('LLEN', KEYS.list) redis.call('HLEN', KEYS.asides)
            redis.call('DEL', KEYS.nothing)
            -- Tried without an effect: without this right no job is pushed.
            redis.call('LTRIM', KEYS.aside, 0, -1)
            local moved, size = 0, 0
            while moved < 1000 and size < 1048576 do
              local job = redis.call('LRANGE', KEYS.aside, -1, -1)[1]
              if not job then break end
              redis.call('LPUSH', KEYS.list, job)
              redis.call('LTRIM', KEYS.aside, 0, -2)
              moved, size = moved + 1, size + #job
            end
            return noted(KEYS.asides, KEYS.aside)
            """)
}
