import Harness

@testable import RedisQueue
@testable import gaplessd

/// The server of one run: the real scripts in a real redis-server, behind simulated connections.
final class SimulatedRedis {
    static let list = "q"
    static let keys = Keys(list: list)

    private let world: World
    private let host: RedisHost
    let ledger: Ledger
    var links: [RedisLink] = []
    /// The connections with a blocking command, in the order of their waits.
    var waiting: [RedisPeer] = []
    /// No command runs before this time.
    private(set) var busyUntil: Int64 = 0
    /// No connection is accepted before this time.
    private(set) var downUntil: Int64 = 0
    private var isWakingWaiters = false
    /// The numbers of the jobs that have arrived, by push: a push that a stall holds up may arrive behind a later one.
    private var pushed: [Range<Int>] = []
    private var pushesBeforeSave = 0
    /// The jobs that Redis lacked at the last `save`, because an earlier one was restored: perhaps only a worker had them.
    private var lackedBySnapshot: Set<Int> = []
    private var snapshot: RedisHost.Snapshot?
    /// Possible duplicates that Redis had counted before it lost data.
    private var countedBefore: Int64 = 0
    private var clockShift: Int64 = 0
    private(set) var settings: QueueSettings

    init(_ world: World, _ host: RedisHost, _ ledger: Ledger, channelPace: Duration? = nil) {
        (self.world, self.host, self.ledger) = (world, host, ledger)
        settings = host.settings(list: SimulatedRedis.list)
        settings.channelPace = channelPace
        attempt {
            setTime()
            try host.run("FLUSHALL")
            try host.run("SCRIPT", "FLUSH")
        }
    }

    var isDown: Bool { world.time < downUntil }

    func status() -> QueueStatus {
        attempt {
            setTime()
            return try host.status(list: SimulatedRedis.list)
        } ?? QueueStatus()
    }

    private func setTime() { host.setTime(world.clock.microsecondsSince1970 + clockShift / .microsecond) }

    @discardableResult
    private func attempt<Result>(_ body: () throws -> Result) -> Result? {
        do { return try body() } catch {
            world.fail("\(error)")
            return nil
        }
    }

    // MARK: Commands

    /// Runs commands of a worker, in one piece.
    func execute(_ requests: [RedisLink.Request], worker: Int) -> [RedisReply] {
        var replies: [RedisReply] = []
        var place = 0
        while place < requests.count {
            let end = requests[place...].firstIndex { $0.call.isTakeover } ?? requests.count
            if end == place {
                replies += takeOver(requests[place], worker: worker)
                place += 1
            } else {
                replies += run(requests[place..<end], worker: worker)
                place = end
            }
        }
        if requests.contains(where: { $0.call.mayFillList }) { wakeWaiters() }
        return replies
    }

    private func run(_ requests: ArraySlice<RedisLink.Request>, worker: Int) -> [RedisReply] {
        let bytes = requests.count == 1 ? requests.first?.bytes ?? [] : requests.flatMap(\.bytes)
        let replies: [RedisReply] =
            attempt {
                setTime()
                return try host.run(bytes, replies: requests.count)
            } ?? []
        for (request, reply) in zip(requests, replies) {
            world.note(.executed, worker, request.call.code)
            if case .error(let error) = reply, error.kind != .scriptMissing { world.fail("\(request.call): \(error)") }
            if request.call != .info { world.mix(UInt64(truncatingIfNeeded: reply.items?.count ?? Int(reply.integer ?? 7))) }
        }
        return replies
    }

    /// Remembers which jobs leave a worker that others consider dead.
    private func takeOver(_ request: RedisLink.Request, worker: Int) -> [RedisReply] {
        guard case .takeOver(let takeover) = request.call else { return [] }
        let dead = takeover.dead
        let held = jobs(heldBy: dead.worker)
        let replies = run([request], worker: worker)
        if let first = replies.first?.items?.first?.integer, first >= 0 {
            world.note(.reaped, held.count, worker)
            ledger.reaped(held, from: dead.worker)
        }
        return replies
    }

    func jobs(heldBy worker: String) -> [[UInt8]] {
        let reply = attempt {
            setTime()
            return try host.run("EVAL", SimulatedRedis.heldJobs, "1", SimulatedRedis.keys.chunks(worker))
        }
        return reply?.items?.compactMap(\.bytes) ?? []
    }

    private static let heldJobs = heldJobsInLua + "return held(KEYS[1], {})"

    /// The head of the list as the blocking command sees it; `nil` for an empty list.
    func peek() -> RedisReply? {
        let reply = attempt {
            setTime()
            return try host.run("LMOVE", SimulatedRedis.list, SimulatedRedis.list, "LEFT", "LEFT")
        }
        return reply == .null ? nil : reply
    }

    /// - Parameter audience: the command that fills the key of a campaign.
    func push(_ jobs: [String], _ numbers: Range<Int>, audience: [String]? = nil) {
        if world.time < busyUntil { return world.at(busyUntil) { [self] in push(jobs, numbers, audience: audience) } }
        pushed.append(numbers)
        ledger.arrived(numbers)
        var bytes: [UInt8] = []
        if let audience { bytes.appendCommand(Arguments(audience)) }
        bytes.appendCommand(Arguments(["RPUSH", SimulatedRedis.list] + jobs))
        attempt { try host.run(bytes, replies: audience == nil ? 1 : 2) }
        wakeWaiters()
    }

    func records(_ key: String) -> [[UInt8]] {
        (attempt { try host.run("LRANGE", key, "0", "-1") })?.items?.compactMap(\.bytes) ?? []
    }

    func allKeys() -> [String] { (attempt { try host.run("KEYS", "*") })?.items?.compactMap(\.text).sorted() ?? [] }

    private func wakeWaiters() {
        if waiting.isEmpty || isWakingWaiters { return }
        isWakingWaiters = true
        world.after(0) { [self] in
            isWakingWaiters = false
            for peer in waiting {
                guard let head = peek() else { break }
                guard peer.isBlocked else { continue }
                waiting.removeAll { $0 === peer }
                peer.unblock(head)
            }
        }
    }

    // MARK: Faults

    func stall(for pause: Int64) { busyUntil = max(busyUntil, world.time + pause) }

    /// The server restarts with all its data.
    func restart(for pause: Int64) {
        downUntil = max(downUntil, world.time + pause)
        for link in links { link.cut() }
        forgetScripts()
    }

    /// FLUSHALL: only the workers still have the jobs that they hold.
    ///
    /// - Parameters:
    ///   - held: the jobs in the memory of the workers.
    ///   - workers: the numbers of the workers that live.
    func flush(holding held: Set<Int>, workers: Set<Int>) {
        ledger.isForgetful = true
        loseJobs(inFlightWithout: workers)
        let held = held.subtracting(settled())
        for job in pushed.joined() where !held.contains(job) { ledger.forget(job) }
        countedBefore += counted
        attempt { try host.run("FLUSHALL") }
    }

    func save() {
        snapshot = attempt { try host.save() }
        pushesBeforeSave = pushed.count
        let dead = records(SimulatedRedis.keys.dead).compactMap { DeadLetter(record: $0)?.job }.flatMap(Ledger.jobs)
        lackedBySnapshot = ledger.isForgetful ? Set(pushed.joined()).subtracting(contents()).subtracting(dead) : []
    }

    /// Redis returns to the state of the last `save`, as after a failover to an old replica. Only jobs that no worker holds are
    /// lost with the pushes since then, and with what workers have put back since then.
    ///
    /// - Parameters:
    ///   - held: the jobs in the memory of the workers.
    ///   - workers: the numbers of the workers that live, and so can count the pushes that are repeated.
    func restore(holding held: Set<Int>, workers: Set<Int>) {
        guard let snapshot else { return }
        ledger.isForgetful = true
        loseJobs(inFlightWithout: workers)
        let lacked = lackedBySnapshot.union(pushed[pushesBeforeSave...].joined())
        for job in lacked.subtracting(held.subtracting(settled())) { ledger.forget(job) }
        countedBefore += counted
        attempt { try host.restore(snapshot) }
        countedBefore -= counted
        ledger.returned(contents(), countedBy: workers)
        wakeWaiters()
    }

    /// The jobs that Redis has, and has in flight for no worker. A worker that still holds one forgets it with the reply, which
    /// is on its way.
    private func settled() -> Set<Int> {
        let dead = records(SimulatedRedis.keys.dead).compactMap { DeadLetter(record: $0)?.job }.flatMap(Ledger.jobs)
        let prefix = SimulatedRedis.keys.chunks("")
        let workers = Set(
            allKeys().filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count).prefix { $0 != ":" }) })
        return contents().union(dead).subtracting(workers.flatMap(jobs(heldBy:)).flatMap(Ledger.jobs))
    }

    /// Redis loses the jobs in flight of workers that have ended.
    private func loseJobs(inFlightWithout living: Set<Int>) {
        let prefix = SimulatedRedis.keys.chunks("")
        for key in allKeys() where key.hasPrefix(prefix) {
            let name = String(key.dropFirst(prefix.count))
            guard let worker = Ledger.worker(named: name), !living.contains(worker) else { continue }
            for job in jobs(heldBy: name).flatMap(Ledger.jobs) { ledger.lose(job, with: worker) }
        }
    }

    /// The number of the last settlement of this worker that Redis has.
    func settled(by worker: String) -> UInt64 {
        let reply = attempt { try host.run("HGET", SimulatedRedis.keys.worker(worker), "settled") }
        return reply?.text.flatMap(UInt64.init) ?? 0
    }

    /// The number of possible duplicates that Redis has counted, with those that it has forgotten.
    var maybeDuplicates: Int64 { countedBefore + counted }

    private var counted: Int64 { status().counters[.maybeDuplicate, default: 0] }

    /// The jobs that Redis has and that have no end.
    func contents() -> Set<Int> {
        let keys = SimulatedRedis.keys
        let reply = attempt {
            setTime()
            let lists = [SimulatedRedis.list] + keys.recovered + ["alpha", "beta"].map(keys.aside)
            return try host.run(
                ["EVAL", SimulatedRedis.allJobs, String(lists.count + 1)] + lists + [keys.delayed, keys.chunks("*")])
        }
        let states = attempt { try host.run("HVALS", keys.states) }
        let all = (reply?.items ?? []) + (states?.items ?? [])
        return Set(all.compactMap(\.bytes).flatMap(Ledger.jobs))
    }

    private static let allJobs =
        heldJobsInLua + """
            local out = {}
            for i = 1, #KEYS - 1 do
              for _, job in ipairs(redis.call('LRANGE', KEYS[i], 0, -1)) do out[#out + 1] = job end
            end
            for _, job in ipairs(redis.call('ZRANGE', KEYS[#KEYS], 0, -1)) do out[#out + 1] = job end
            local read = {list = {'LRANGE', 0, -1}, set = {'SMEMBERS'}, zset = {'ZRANGE', 0, -1}}
            for _, key in ipairs(redis.call('KEYS', '*audience:*')) do
              local command = read[redis.call('TYPE', key).ok]
              for _, token in ipairs(redis.call(command[1], key, unpack(command, 2))) do out[#out + 1] = token end
            end
            return held(ARGV[1], out)
            """

    /// A step back makes delayed jobs wait longer. The bound keeps that wait shorter than the limit for jobs that nobody claims.
    func shiftClock(by shift: Int64) {
        let most = 60 * Int64.second
        clockShift = min(max(clockShift + shift, -most), most)
    }

    /// An operator pauses the list.
    func pause(for pause: Int64) {
        attempt {
            let duration = Duration.nanoseconds(max(pause, .millisecond))
            setTime()
            try host.pause(SimulatedRedis.keys, for: duration)
        }
    }

    func forgetScripts() { attempt { try host.run("SCRIPT", "FLUSH") } }
}

extension Call {
    fileprivate var isTakeover: Bool { if case .takeOver = self { true } else { false } }

    /// Whether it may add jobs to the list.
    fileprivate var mayFillList: Bool {
        switch self {
        case .settle(let batch): !batch.steps.bytes.isEmpty
        case .promote, .pop(.merge), .restore, .returnSlots, .unregister: true
        default: false
        }
    }

    fileprivate var code: Int {
        switch self {
        case .greeting: 0
        case .register: 1
        case .claim: 2
        case .jobs: 3
        case .pop(.jobs): 4
        case .settle: 5
        case .beat: 6
        case .promote: 7
        case .takeOver: 8
        case .adopt: 9
        case .pop(.merge): 10
        case .info: 11
        case .nodes: 12
        case .fetch: 13
        case .unregister: 14
        case .inspect: 15
        case .wait: 16
        case .pop(.aside): 17
        case .restore: 18
        case .launch: 19
        case .campaigns: 20
        case .describe: 21
        case .keep: 22
        case .figures: 23
        case .review: 24
        case .returnSlots: 25
        case .apps: 26
        }
    }
}
