import Harness
import Platform
import Testing

@testable import RedisQueue

/// Jobs are texts: `<lane><event><state>`, for example `au1`, an update of the lane t:a.
@Suite("Slots")
struct SlotTests {
    let server: RedisServer
    let keys = Keys(list: "jobs")

    init() throws { server = try RedisServer() }

    static func scope(_ job: ClaimedJob, lane: String? = nil, name: String? = "score") -> Scope {
        let text = SlotTests.text(job)
        let event = Scope.Event(rawValue: String(text.dropFirst().prefix(1))) ?? .update
        return Scope(app: "", lane: lane ?? "t::\(text.prefix(1))", name: name, rank: rank(job), event: event)
    }

    /// The text without a mark.
    static func text(_ job: ClaimedJob) -> String { String(SlotTests.whole(job).split(separator: "|").last ?? "") }

    static func rank(_ job: ClaimedJob) -> UInt64 {
        let parts = SlotTests.whole(job).split(separator: "|")
        return parts.count > 1 ? UInt64(parts[0]) ?? 0 : job.rank
    }

    private static func whole(_ job: ClaimedJob) -> String { String(decoding: job.bytes, as: UTF8.self) }

    static func entry(
        _ job: ClaimedJob, lane: String? = nil, name: String? = "score", due: Settlement.Due? = nil, throttle: Duration? = nil,
        superseded: Arguments = [], count: SlotEntry.Count = .released
    ) -> SlotEntry {
        let scope = SlotTests.scope(job, lane: lane, name: name)
        let marked = bytes("\(scope.rank)|\(SlotTests.text(job))")
        return SlotEntry(scope, job: marked, due: due, throttle: throttle, superseded: superseded, count: count)
    }

    /// A worker that puts each claimed job into its slot, and keeps those that come from there.
    private func worker(
        _ settings: QueueSettings? = nil, lane: String? = nil, name: String? = "score", places: Int = 0
    ) -> Worker {
        let worker = Worker(settings ?? server.settings())
        worker.slotPlaces[""] = places
        worker.onJob = { job in
            if job.isFromSlot { return nil }
            return Settlement(id: job.id, effect: .slot(SlotTests.entry(job, lane: lane, name: name)))
        }
        return worker
    }

    private func push(_ jobs: [String], to worker: Worker) throws {
        let claimed = try server.status().counters[.claimed, default: 0]
        try server.push(jobs)
        try worker.run("in slots") {
            let status = try server.status()
            let isClaimed = status.counters[.claimed, default: 0] >= claimed + Int64(jobs.count)
            return isClaimed && status.inFlight == worker.jobs.count && !worker.queueHasWork
        }
    }

    private func take(_ worker: Worker, _ count: Int = 1) -> [String] {
        worker.slotPlaces[""] = 100
        worker.run("from slots") { worker.jobs.count >= count }
        worker.slotPlaces[""] = 0
        return worker.jobs.map(SlotTests.text)
    }

    private func accept(_ worker: Worker) {
        for job in worker.jobs { worker.settle(job, .ack, scope: SlotTests.scope(job)) }
        worker.run("settled") { !worker.queueHasWork }
    }

    private func counters() throws -> [Counter: Int64] { try server.status().counters }

    @Test func `the newest job of a scope takes the place of the one that waits`() throws {
        let worker = worker()
        try push(["au1", "au2", "bu1", "au3"], to: worker)
        #expect(take(worker, 2).sorted() == ["au3", "bu1"])
        accept(worker)
        #expect(try counters()[.superseded] == 2 && counters()[.sent] == 2 && server.status().unexplained == 0)
        worker.stop()
        #expect(try server.status().unexplained == 0)
    }

    @Test func `one job of a scope is in flight, and the newest of the others follows it`() throws {
        let worker = worker()
        try push(["au1"], to: worker)
        #expect(take(worker) == ["au1"])
        try push(["au2", "au3"], to: worker)
        worker.slotPlaces[""] = 100
        try push(["bu1"], to: worker)
        worker.run("the other scope") { worker.jobs.count == 2 }
        #expect(worker.jobs.map(SlotTests.text) == ["au1", "bu1"])
        accept(worker)
        #expect(take(worker) == ["au3"])
        accept(worker)
        #expect(try counters()[.superseded] == 1 && counters()[.sent] == 3 && server.status().unexplained == 0)
        worker.stop()
    }

    @Test func `an end takes the place of updates, an update waits behind an end, and a start stays`() throws {
        let worker = worker()
        try push(["au1", "as2", "au3", "au4", "ae5", "au6", "au7", "as8", "au9"], to: worker)
        var order: [String] = []
        for _ in 0..<6 {
            order += take(worker)
            accept(worker)
        }
        #expect(order == ["au1", "as2", "ae5", "au7", "as8", "au9"])
        #expect(try counters()[.superseded] == 3 && server.status().unexplained == 0)
        worker.stop()
    }

    @Test func `a job that returns has no effect if a newer one waits, or was sent`() throws {
        let worker = worker()
        try push(["au1"], to: worker)
        #expect(take(worker) == ["au1"])
        let first = try #require(worker.jobs.first)
        try push(["au2"], to: worker)
        worker.settle(first, .slot(SlotTests.entry(first, due: .after(.seconds(1)), count: .retried)))
        worker.run("settled") { !worker.queueHasWork }
        #expect(take(worker) == ["au2"])
        #expect(try counters()[.superseded] == 1 && counters()[.retried] == 0)
        accept(worker)
        // A recovered job has its old rank.
        worker.onJob = { job in
            if job.isFromSlot { return nil }
            var old = job
            old.bytes = bytes("\(SlotTests.rank(first))|au1")
            return Settlement(id: job.id, effect: .slot(SlotTests.entry(old)))
        }
        try push(["au1"], to: worker)
        #expect(try counters()[.superseded] == 2 && server.status().unexplained == 0)
        #expect(try server.ask("HLEN", keys.states) == .integer(0))
        worker.stop()
    }

    @Test func `a retry waits in its slot until it is due`() throws {
        let worker = worker()
        try push(["au1"], to: worker)
        #expect(take(worker) == ["au1"])
        let job = try #require(worker.jobs.first)
        worker.settle(job, .slot(SlotTests.entry(job, due: .after(.milliseconds(300)), count: .retried)))
        worker.run("settled") { !worker.queueHasWork }
        #expect(try counters()[.retried] == 1 && server.status().unexplained == 0)
        #expect(try server.ask("HLEN", keys.states) == .integer(1))
        #expect(take(worker) == ["au1"])
        accept(worker)
        worker.stop()
    }

    @Test func `the jobs of a dead worker keep their ranks, and end the flight of their scopes`() throws {
        var settings = server.settings()
        settings.lease = .seconds(1)
        let text = #"{"replaces": "score", "n": "#
        func number(_ job: ClaimedJob) -> Int { Int(SlotTests.text(job).filter(\.isNumber).suffix(1)) ?? 0 }
        func entry(_ job: ClaimedJob) -> SlotEntry {
            let json = String(decoding: job.bytes, as: UTF8.self)
            let mark = json.firstRange(of: "\"_gapless_rank\":").map { json[$0.upperBound...].prefix(while: \.isNumber) }
            let rank = mark.flatMap { UInt64($0) } ?? job.rank
            let scope = Scope(app: "", lane: "t::a", name: "score", rank: rank, event: .update)
            return SlotEntry(scope, job: RankMark.adding(rank, to: job.bytes))
        }
        let dead = Worker(settings)
        dead.slotPlaces[""] = 10
        dead.onJob = { $0.isFromSlot ? nil : Settlement(id: $0.id, effect: .slot(entry($0))) }
        try server.push([text + "1}"])
        dead.run("in flight") { dead.jobs.count == 1 }
        // These are claimed, and not in their slot.
        dead.onJob = { _ in nil }
        try server.push([text + "2}", text + "3}"])
        dead.run("claimed") { dead.jobs.count == 3 }
        let heir = Worker(settings)
        heir.slotPlaces[""] = 10
        heir.onJob = { $0.isFromSlot ? nil : Settlement(id: $0.id, effect: .slot(entry($0))) }
        heir.run("the newest") { heir.jobs.count == 1 }
        #expect(heir.jobs.map(number) == [3])
        heir.settle(heir.jobs[0], .ack, scope: entry(heir.jobs[0]).scope)
        heir.run("settled") { !heir.queueHasWork }
        let status = try server.status()
        #expect(status.counters[.superseded] == 2 && status.counters[.sent] == 1 && status.unexplained == 0)
        heir.stop()
    }

    /// Otherwise the start would be sent behind the update, and the end not at all.
    @Test(arguments: ["s", "e"])
    func `a job waits for an older one that another worker has claimed and not read, for a short time`(event: String) throws {
        let slow = Worker(server.settings())
        slow.places = 1
        var isInTime = false
        // On a busy machine the time passes sooner.
        for lane in ["a", "b", "c", "d", "e", "f", "g", "h"] where !isInTime {
            try server.push(["\(lane)\(event)1"])
            slow.run("claimed") { slow.jobs.count == 1 }
            let (quick, begin) = (worker(), Instant.now)
            try server.push(["\(lane)u2"])
            try quick.run("in its slot") { try server.status().states == 1 && !quick.queueHasWork }
            quick.slotPlaces[""] = 10
            for _ in 1...3 { quick.step() }
            if let older = slow.jobs.first { slow.settle(older, .slot(SlotTests.entry(older))) }
            slow.run("in its slot, too") { !slow.queueHasWork }
            isInTime = .now - begin < Slots.unreadWait
            var sent: [String] = []
            try quick.run("both end") {
                sent += quick.jobs.map(SlotTests.text)
                for job in quick.jobs { quick.settle(job, .ack, scope: SlotTests.scope(job)) }
                return try server.status().states == 0 && server.status().inFlight == 0
            }
            if isInTime { #expect(sent == ["\(lane)\(event)1", "\(lane)u2"]) }
            quick.stop()
        }
        #expect(isInTime, "the machine is too busy for this test")
        slow.stop()
    }

    @Test func `a flight whose job is nowhere ends`() throws {
        let worker = worker()
        try push(["au1"], to: worker)
        #expect(take(worker) == ["au1"])
        // An older version has taken over the job and sent it.
        worker.settle(worker.jobs[0], .ack)
        worker.run("settled") { !worker.queueHasWork }
        try push(["au2"], to: worker)
        try server.ask("ZADD", keys.scope(""), "1", "t::a =score")
        try server.ask("HSET", keys.asides, "\u{1}", "1")
        try push(["bu1"], to: worker)
        worker.slotPlaces[""] = 100
        worker.run("both") { worker.jobs.count == 2 }
        #expect(Set(worker.jobs.map(SlotTests.text)) == ["au2", "bu1"])
        accept(worker)
        worker.stop()
    }

    @Test func `the last worker returns the jobs that wait to the list, and they keep their ranks`() throws {
        let worker = worker()
        try push(["au1", "bu1", "au2", "cu1"], to: worker)
        worker.stop()
        let jobs = try server.list("jobs").map { $0.split(separator: "|") }
        #expect(Set(jobs.compactMap(\.last)) == ["au2", "bu1", "cu1"] && jobs.allSatisfy { $0.count == 2 })
        #expect(try server.ask("EXISTS", keys.states, keys.waiting) == .integer(0))
        #expect(try server.status().unexplained == 0)
    }

    /// The pace of the lane: distance, time of the next update, pause, last 429, and begin of the last minute.
    private func pace(_ lane: String) throws -> [Int64] {
        try server.ask("HGET", keys.slots, lane).text?.split(separator: " ").compactMap { Int64($0) } ?? []
    }

    private func setPace(_ lane: String, _ fields: [Int64]) throws {
        try server.ask("HSET", keys.slots, lane, fields.map(String.init).joined(separator: " "))
    }

    private var now: Int64 { Int64(WallClock.now().seconds * 1000) }

    @Test func `a 429 pauses its lane, and no other`() throws {
        let worker = worker()
        try push(["au1", "bu1"], to: worker)
        #expect(take(worker, 2).sorted() == ["au1", "bu1"])
        let paced = try #require(worker.jobs.first { SlotTests.text($0) == "au1" })
        worker.settle(paced, .slot(SlotTests.entry(paced, throttle: .zero, count: .postponed)))
        worker.run("settled") { !worker.queueHasWork }
        let record = try pace("t::a")
        #expect(record.count == 5 && record[1] == record[3] + 15_000 && record[0] == 15_000 && record[2] == 15_000)
        #expect(try counters()[.postponed] == 1 && server.status().unexplained == 0)
        // The same 15 s later: the pause has passed.
        try setPace("t::a", [15_000, 1, 15_000, 1, 1])
        try server.ask("ZADD", keys.scope(""), "1", "t::a =score")
        try server.ask("HSET", keys.asides, "\u{1}", "1")
        accept(worker)
        try push(["cu1"], to: worker)
        #expect(take(worker, 2).sorted() == ["au1", "cu1"])
        let next = try pace("t::a")
        #expect(try pace("t::c").isEmpty && next.count == 5 && next[1] > now && next[1] <= now + 15_000, "the distance")
        worker.queue.stop()
    }

    /// What a lane had before its 429, and gets by it. Times are `ago`, in seconds before the 429; -1 is never.
    @Test(
        arguments: [
            (before: [Int64](), asked: 0, distance: Int64(15_000), pause: Int64(15_000), wait: Int64(15_000)),
            // Each further 429 doubles the pause, up to 120 s, and makes the distance a third longer.
            ([15_000, 15_000, 16, 16], 0, 20_000, 30_000, 30_000),
            ([20_000, 30_000, 31, 31], 0, 26_666, 60_000, 60_000),
            ([100_000, 90_000, 91, 91], 0, 120_000, 120_000, 120_000),
            ([120_000, 120_000, 121, 121], 0, 120_000, 120_000, 120_000),
            // After a minute of acceptances it is not a further one.
            ([12_000, 30_000, 100, 40], 0, 16_000, 30_000, 30_000),
            // Several of one moment are one.
            ([15_000, 15_000, 1, 1], 0, 15_000, 15_000, 15_000),
            // A Retry-After is the pause, and no distance.
            ([], 600, 15_000, 0, 600_000), ([], 2, 2_000, 0, 2_000), ([2_000, 0, 30, 30], 0, 2_666, 15_000, 15_000),
            ([15_000, 60_000, 61, 61], 7, 20_000, 60_000, 7_000), ([], 3_600, 15_000, 0, 900_000),
        ] as [([Int64], Int, Int64, Int64, Int64)])
    func `the pause of a 429 and the distance between updates`(
        before: [Int64], asked: Int, distance: Int64, pause: Int64, wait: Int64
    ) throws {
        let worker = worker()
        try push(["au1"], to: worker)
        #expect(take(worker) == ["au1"])
        let job = worker.jobs[0]
        if !before.isEmpty {
            // Its own claim has set the time of the next one.
            try setPace("t::a", [before[0], now + before[0] / 2, before[1], now - 1000 * before[2], now - 1000 * before[3]])
        }
        worker.settle(job, .slot(SlotTests.entry(job, throttle: .seconds(asked), count: .postponed)))
        worker.run("settled") { !worker.queueHasWork }
        let record = try pace("t::a")
        #expect(record.count == 5 && record[0] == distance && record[2] == pause)
        let begun = record[1] - wait
        #expect(begun <= now && begun >= record[3], "the time of the next one")
        worker.queue.stop()
    }

    /// After a failover to an old replica, `rank` is lower than the ranks that workers hold.
    @Test func `ranks are higher after each new connection, and never lower`() throws {
        let worker = Worker(server.settings())
        var ranks: [UInt64] = []
        for (round, rank) in [nil, "1", "9000000000000000"].enumerated() {
            if let rank {
                try server.ask("HSET", keys.stats, "rank", rank)
                try server.ask("CLIENT", "KILL", "TYPE", "normal")
                worker.run("reconnected") { worker.connects == round + 1 }
            }
            try server.push(["au\(round)"])
            worker.run("claimed") { worker.jobs.count == round + 1 }
            ranks.append(SlotTests.rank(worker.jobs[round]))
        }
        #expect(ranks == ranks.sorted() && Set(ranks).count == 3 && ranks[2] > 9_000_000_000_000_000)
        worker.stop()
    }

    @Test func `jobs that wait before the first worker have lower ranks than later ones`() throws {
        let worker = Worker(server.settings())
        for count in [300, 600] {
            try server.push((0..<300).map { "au\($0)" })
            worker.run("claimed") { worker.jobs.count == count }
        }
        let ranks = worker.jobs.map(SlotTests.rank)
        #expect(zip(ranks, ranks.dropFirst()).allSatisfy { $0 < $1 })
        worker.stop()
    }

    @Test func `ranks of jobs that were removed from the list are not given to later ones`() throws {
        try server.push((0..<300).map { "au\($0)" })
        let worker = Worker(server.settings())
        worker.places = 0
        worker.run("connected") { worker.connects == 1 }
        #expect(try server.ask("HGET", keys.stats, "old_jobs").text == "300")
        try server.ask("DEL", "jobs")
        worker.places = 10
        try worker.run("found an empty list") { try server.ask("HEXISTS", keys.stats, "old_jobs") == .integer(0) }
        worker.stop()
    }

    /// A stale replica has states in its list that were claimed, and a worker holds some of them: these go back to the places
    /// that they had in the order, between the others.
    @Test(arguments: [false, true])
    func `after a failover to a stale replica states have the order of the list`(isOtherFirst: Bool) throws {
        func state(_ number: Int) -> String { #"{"token":"a","replaces":"score","collapse_id":"\#(number)"}"# }
        let (holder, other) = (Worker(server.settings()), Worker(server.settings()))
        (holder.places, other.places) = (0, 0)
        for worker in [holder, other] { worker.run("connected") { worker.connects == 1 } }
        try server.push((1...9).map(state))
        try server.ask("SAVE")
        try server.ask("CONFIG", "SET", "save", "")
        // It has sent the others, and has a state that the replica never had.
        try server.push([state(10)])
        holder.places = 10
        holder.run("claimed") { holder.jobs.count == 10 }
        holder.places = 0
        for number in [0, 1, 3, 4, 6, 8].reversed() { holder.settle(holder.jobs[number], .ack) }
        holder.run("settled") { !holder.queueHasWork }
        server.kill()
        try server.restart()
        let workers = isOtherFirst ? [other, holder] : [holder, other]
        for worker in workers {
            worker.forgetEvents()
            worker.run("connected again") { worker.connects == 1 }
        }
        try server.push([state(11)])
        workers[1].places = 20
        workers[1].run("claimed") { holder.jobs.count + other.jobs.count == 11 }
        let all = (holder.jobs + other.jobs).map { job in
            let mark = String(decoding: job.bytes, as: UTF8.self).split(separator: "\"\(RankMark.key)\":").dropFirst().first
            return (rank: mark.flatMap { UInt64($0.prefix { $0.isNumber }) } ?? job.rank, number: SlotTests.number(of: job))
        }
        #expect(all.sorted { $0.rank < $1.rank }.map(\.number) == Array(1...11))
    }

    private static func number(of job: ClaimedJob) -> Int {
        let text = String(decoding: job.bytes, as: UTF8.self).split(separator: "\"collapse_id\":\"").last ?? ""
        return Int(text.prefix { $0.isNumber }) ?? 0
    }

    @Test func `jobs without a name of a paced channel wait in order, and an end goes first`() throws {
        var settings = server.settings()
        settings.channelPace = .milliseconds(20)
        let worker = worker(settings, lane: "c::x", name: nil)
        try push(["xu1", "xu2", "xe3", "xu4"], to: worker)
        var order: [String] = []
        for _ in 0..<4 {
            order += take(worker)
            for job in worker.jobs { worker.settle(job, .ack, scope: SlotTests.scope(job, lane: "c::x", name: nil)) }
            worker.run("settled") { !worker.queueHasWork }
        }
        #expect(order == ["xe3", "xu1", "xu2", "xu4"])
        #expect(try server.status().unexplained == 0 && counters()[.superseded] == 0)
        #expect(try server.ask("ZCARD", keys.scope("")) == .integer(0))
        worker.stop()
    }

    @Test(
        arguments: [
            ([15_000, 15_000], [13_500, 15_000]), ([20_000, 60_000], [18_000, 54_000]), ([9_000, 0], [8_100, 0]),
            ([1_000, 15_000], []),
        ] as [([Int64], [Int64])])
    func `a minute of acceptances shortens the pause by a tenth`(before: [Int64], after: [Int64]) throws {
        let worker = worker()
        func accept(_ job: String, since: Int64) throws -> [Int64] {
            try setPace("t::a", [before[0], 1, before[1], since, since])
            try push([job], to: worker)
            _ = take(worker)
            self.accept(worker)
            let record = try pace("t::a")
            return record.isEmpty || record[0] == 0 ? [] : [record[0], record[2]]
        }
        #expect(try accept("au1", since: now - 60_000) == after)
        // The same minute has no further effect.
        #expect(try accept("au2", since: now) == before)
        worker.queue.stop()
    }

    @Test func `with channel_pace an accepted update ends the pause of its channel`() throws {
        var settings = server.settings()
        settings.channelPace = .milliseconds(20)
        let worker = worker(settings, lane: "c::x")
        try setPace("c::x", [20_000, 1, 30_000, 1, 1])
        try push(["xu1"], to: worker)
        #expect(take(worker) == ["xu1"])
        for job in worker.jobs { worker.settle(job, .ack, scope: SlotTests.scope(job, lane: "c::x")) }
        worker.run("settled") { !worker.queueHasWork }
        let record = try pace("c::x")
        #expect(record.isEmpty || record[0] == 0 && record[2] == 0)
        worker.queue.stop()
    }

    @Test func `while a channel is paced its broadcasts go through its slot, also after it was empty`() throws {
        let worker = worker(lane: "c::x", name: nil)
        try setPace("c::x", [15_000, 1, 15_000, now, now])
        try push(["xu1"], to: worker)
        #expect(take(worker) == ["xu1"])
        for job in worker.jobs { worker.settle(job, .ack, scope: SlotTests.scope(job, lane: "c::x", name: nil)) }
        worker.run("settled") { !worker.queueHasWork }
        #expect(try server.ask("ZCARD", keys.scope("")) == .integer(1))
        // The pause has ended.
        try server.ask("HDEL", keys.slots, "c::x")
        try push(["xu2"], to: worker)
        #expect(take(worker) == ["xu2"])
        for job in worker.jobs { worker.settle(job, .ack, scope: SlotTests.scope(job, lane: "c::x", name: nil)) }
        worker.run("settled") { !worker.queueHasWork }
        #expect(try server.ask("ZCARD", keys.scope("")) == .integer(0))
        worker.queue.stop()
    }

    @Test func `a job of unknown rank is not lost`() throws {
        let worker = worker()
        worker.onJob = { job in
            if job.isFromSlot { return nil }
            let scope = Scope(app: "", lane: "t::a", name: "score", rank: 0, event: .update)
            return Settlement(id: job.id, effect: .slot(SlotEntry(scope, job: bytes("0|au1"))))
        }
        try push(["au1"], to: worker)
        #expect(take(worker) == ["au1"])
        #expect(try counters()[.superseded] == 0)
        worker.queue.stop()
    }

    @Test func `a superseded job has its result`() throws {
        var settings = server.settings()
        settings.resultsKey = "results"
        let worker = Worker(settings)
        worker.onJob = { job in
            let fields = ["text", SlotTests.text(job), "at", "1"].map { bytes($0) }
            return Settlement(id: job.id, effect: .slot(SlotTests.entry(job, superseded: Arguments(fields))))
        }
        try push(["au1", "au2"], to: worker)
        let entries = try server.ask("XRANGE", "results", "-", "+").items ?? []
        #expect(entries.count == 1)
        let texts = entries.first?.items?.last?.items?.compactMap(\.text) ?? []
        #expect(texts.prefix(3) == ["text", "au1", "at"] && (Int(texts.last ?? "") ?? 0) > 1_000_000_000)
        worker.queue.stop()
    }

    @Test func `a record ends a while after its scope`() throws {
        let worker = worker()
        try push(["au1"], to: worker)
        _ = take(worker)
        accept(worker)
        let record = try #require(try server.ask("HGET", keys.slots, "t::a =score").text)
        #expect(record.hasSuffix("||"))
        let parts = record.split(separator: "|", omittingEmptySubsequences: false)
        try server.ask("HSET", keys.slots, "t::a =score", "\(parts[0])|0|5||")
        try server.ask("ZADD", keys.scope(""), "1", "t::a =score")
        try push(["bu1"], to: worker)
        #expect(take(worker) == ["bu1"])
        #expect(try server.ask("HEXISTS", keys.slots, "t::a =score") == .integer(0))
        accept(worker)
        worker.stop()
    }
}
