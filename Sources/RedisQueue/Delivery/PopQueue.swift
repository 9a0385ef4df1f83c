import Platform

/// `at_most_once`: jobs leave Redis when they are popped, with LPOP and BLPOP as in the original. Of a queue like this, Redis
/// keeps only suspects in flight, and no other worker takes over jobs.
///
/// It knows how the calls, the wait and the settlements differ. All else is as in a queue that keeps its jobs.
struct PopQueue {
    enum Call: Equatable {
        case jobs(count: Int)
        /// The lists of recovered jobs are not claimed from: their jobs move to the head of the list.
        case merge
        /// Jobs of the side list of this app.
        case aside(app: String, count: Int)
    }

    /// LPOP takes no count.
    private(set) var popsOne = false

    /// `nil` for a queue that keeps its jobs.
    init?(_ mode: QueueSettings.DeliveryMode) { if mode.keepsJobs { return nil } }

    /// Begins what takes the place of a claim.
    func call(_ places: Int, _ claims: inout Claims, now: Instant) -> RedisQueue.Call {
        if claims.hasRecovered {
            claims.merge(now: now)
            return .pop(.merge)
        }
        let count = popsOne ? 1 : places
        claims.pop(count)
        return .pop(.jobs(count: count))
    }

    func call(_ places: Int, aside app: String) -> RedisQueue.Call { .pop(.aside(app: app, count: places)) }

    /// - Returns: whether this is new.
    mutating func countRefused() -> Bool {
        defer { popsOne = true }
        return !popsOne
    }

    // MARK: Commands

    /// It waits only one second, so that a stop need not wait longer.
    static func wait(on list: String) -> Arguments { Arguments(["BLPOP", list, "1"]) }

    static func write(_ call: Call, _ keys: Keys, to out: inout [UInt8]) {
        let names = ScriptKeys(keys, worker: "")
        switch call {
        case .jobs(let count):
            out.appendCommand(Arguments(count == 1 ? ["LPOP", keys.list] : ["LPOP", keys.list, String(count)]))
        case .merge:
            var merge = PreparedScript(mergeScript, names)
            merge.begin(arguments: 0, to: &out)
        case .aside(let app, let count):
            var take = PreparedScript(takeScript, names)
            take.begin(moreKeys: 1, arguments: 1, to: &out)
            out.appendArgument(keys.aside(app))
            out.appendArgument(count)
        }
    }

    /// The jobs in a reply to `jobs`, or `nil` for one of another form.
    static func jobs(_ reply: RedisReply) -> [Lua.Job]? {
        let items: [RedisReply]
        switch reply {
        case .null: items = []
        case .string: items = [reply]
        case .array(let all): items = all
        default: return nil
        }
        let jobs = items.compactMap(Lua.Job.init)
        return jobs.count > ChunkEntry.mostJobs ? nil : jobs
    }

    /// The job that a wait has brought.
    static func job(ofWait reply: RedisReply) -> Lua.Job? { reply.items?.last.flatMap(Lua.Job.init) }

    /// Replies the number of moved jobs.
    static let mergeScript = Script(
        [.nothing, .list, .once, .twice, .thrice], isFenced: false,
        """
        local moved = 0
        redis.call('LLEN', KEYS.list)
        redis.call('DEL', KEYS.nothing)
        redis.call('RPOP', KEYS.nothing)
        for i = KEY.thrice, KEY.once, -1 do
          for _ = 1, 1000 do
            local job = redis.call('LINDEX', KEYS[i], -1)
            if not job then break end
            redis.call('LPUSH', KEYS.list, job)
            redis.call('RPOP', KEYS[i])
            moved = moved + 1
          end
        end
        return moved
        """)

    /// Takes jobs from the head of a side list. Replies the number of jobs that are left, and the jobs.
    static let takeScript = Script(
        [.nothing, .asides], more: ["aside"], arguments: ["count"], isFenced: false,
        Lua.noted + """
            redis.call('LLEN', KEYS.aside) redis.call('HLEN', KEYS.asides)
            redis.call('DEL', KEYS.nothing)
            local jobs = redis.call('LRANGE', KEYS.aside, 0, ARGV.count - 1)
            redis.call('LTRIM', KEYS.aside, #jobs, -1)
            table.insert(jobs, 1, noted(KEYS.asides, KEYS.aside))
            return jobs
            """)

    /// The jobs in a reply to `aside`, and the number that is left; `nil` for a reply of another form.
    static func jobsAside(_ reply: RedisReply) -> (jobs: [Lua.Job], left: Int64)? {
        guard let items = reply.items, let left = items.first?.integer else { return nil }
        let jobs = items.dropFirst().compactMap(Lua.Job.init)
        return jobs.count > ChunkEntry.mostJobs ? nil : (jobs, left)
    }
}
