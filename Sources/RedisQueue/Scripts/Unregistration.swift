/// Unregisters a worker that holds nothing. Replies the number of chunks that it still has, or -1 if it is the last one that
/// knows side lists, and there are some; if not 0, nothing was done.
enum Unregistration {
    static let script = Script(
        [.nothing, .workers, .worker, .chunks, .holders, .asides],
        Lua.last + Lua.fence + """
            local held, sides = redis.call('HLEN', KEYS.chunks), false
            for _, app in ipairs(redis.call('HKEYS', KEYS.asides)) do sides = sides or string.sub(app, 1, 1) ~= '\\1' end
            if held == 0 and sides and isLast(KEYS.workers, KEYS.holders, ARGV.worker) then return -1 end
            if held == 0 then
              -- All are tried: a worker that is half unregistered could not call this again.
              redis.call('DEL', KEYS.nothing) redis.call('HDEL', KEYS.holders, '')
              redis.call('ZREM', KEYS.workers, ARGV.worker)
              redis.call('DEL', KEYS.worker)
              redis.call('HDEL', KEYS.holders, ARGV.worker)
            end
            return held
            """)
}
