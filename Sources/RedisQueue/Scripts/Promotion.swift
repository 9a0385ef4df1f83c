/// Moves up to 100 jobs that are due by Redis' own clock from `delayed` to the head of the list, the first due in front. It is
/// not fenced, because any worker may call it at any time.
///
/// Replies the number of moved jobs, and when the next is due.
enum Promotion {
    static let mostJobs = 100

    static let script = Script(
        [.nothing, .delayed, .list], isFenced: false,
        Lua.clock + Lua.due + """
            local ripe = redis.call('ZRANGEBYSCORE', KEYS.delayed, '-inf', math.floor(clock()), 'LIMIT', 0, \(mostJobs))
            if #ripe > 0 then
              redis.call('LLEN', KEYS.list)
              redis.call('DEL', KEYS.nothing)
              -- Without the right to remove them, none is pushed.
              redis.call('ZREM', KEYS.delayed, '') redis.call('ZRANGE', KEYS.delayed, 0, 0)
              -- One command for all: while an app has retries, a command for each job would be half of the work of Redis.
              local jobs = {}
              for i = #ripe, 1, -1 do
                jobs[#jobs + 1] = string.sub(ripe[i], string.match(ripe[i], '^[^|{]+:[%d:]+|()') or 1)
              end
              redis.call('LPUSH', KEYS.list, unpack(jobs))
              redis.call('ZREM', KEYS.delayed, unpack(ripe))
            end
            return {#ripe, due(KEYS.delayed)}
            """)

    struct Reply {
        var count: Int64
        var due: Lua.NextDue

        init?(_ items: [RedisReply]) {
            guard items.count == 2, let count = items[0].integer, let due = items[1].integer else { return nil }
            (self.count, self.due) = (count, Lua.NextDue(due))
        }
    }
}
