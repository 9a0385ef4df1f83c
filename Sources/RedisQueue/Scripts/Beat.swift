/// The heartbeat: sets the counter to a value that it never had. The other workers compare only that; the time of the beat by
/// Redis' clock is for `status`.
///
/// Replies the kind of the recovered jobs, when `delayed` is due (with the pauses and side lists, if any), and all workers with
/// their counters; or `GAP` if that settlement or that chunk is lost: an idle worker settles nothing, and would not notice that
/// Redis returned to an earlier state.
struct Beat: Equatable {
    var counter: Int64
    /// The last settlement that Redis has confirmed. Redis lacks it, or the chunk, if it was put back to an earlier state.
    var settled: UInt64
    /// The newest chunk.
    var chunk: UInt64?

    enum Argument: String, CaseIterable { case counter, settled, chunk }

    static let script = Script(
        [.nothing, .workers, .worker, .once, .twice, .thrice, .delayed, .paused, .holders, .chunks, .asides],
        arguments: Argument.allCases.map(\.rawValue),
        Lua.clock + Lua.due + Lua.pauses + Lua.asides + Lua.waiting + Lua.counters + Lua.fence + """
            if tonumber(state[2] or 0) < tonumber(ARGV.settled) then return '\(Lua.Status.gap)' end
            if ARGV.chunk ~= '' and redis.call('HEXISTS', KEYS.chunks, ARGV.chunk) == 0 then return '\(Lua.Status.gap)' end
            redis.call('DEL', KEYS.nothing)
            local paused = asides(KEYS.asides, (pauses(KEYS.paused, true)))
            redis.pcall('HSET', KEYS.worker, 'beat', string.format('%d', math.floor(clock())))
            redis.call('ZADD', KEYS.workers, ARGV.counter, ARGV.worker)
            local answer = {waiting(KEYS.once, KEYS.twice, KEYS.thrice), with(paused, due(KEYS.delayed))}
            return counters(KEYS.workers, KEYS.holders, answer)
            """)

    func write(_ argument: Argument, to out: inout [UInt8]) {
        switch argument {
        case .counter: out.appendArgument(String(counter))
        case .settled: out.appendArgument(settled)
        case .chunk: out.appendArgument(chunk.map { String($0) } ?? "")
        }
    }

    /// Registrations bring it, too.
    struct Reply {
        var recovered: Lua.Recovered
        var due: Lua.NextDue
        var pauses: [QueuePause]
        /// The apps whose side lists have jobs.
        var asides: Set<String>
        /// The time until a slot of each app has something to do.
        var slots: [String: Duration]
        var counters: Lua.Counters

        init?(_ items: [RedisReply]) {
            guard items.count >= 2 else { return nil }
            self.init(recovered: items[0], due: items[1], counters: items.dropFirst(2))
        }

        /// - Parameter due: with the pauses, side lists and slots, if any.
        init?(recovered: RedisReply, due reply: RedisReply, counters: ArraySlice<RedisReply>) {
            guard let recovered = recovered.integer.flatMap(Lua.Recovered.init), let (due, pauses) = QueuePause.split(reply)
            else { return nil }
            (self.recovered, self.due, self.pauses) = (recovered, Lua.NextDue(due), pauses)
            asides = Set(QueuePause.sideLists(reply).keys)
            slots = QueuePause.slots(reply)
            self.counters = Lua.readCounters(counters)
        }
    }
}
