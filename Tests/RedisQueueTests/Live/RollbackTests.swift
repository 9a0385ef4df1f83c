import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("When Redis returns to an earlier state, jobs that a worker holds")
struct RollbackTests {
    let server: RedisServer
    let keys = Keys(list: "jobs")
    private static let count = 300

    init() throws { server = try RedisServer() }

    private func settings(lease: Duration = .seconds(60)) -> QueueSettings {
        var settings = server.settings()
        settings.lease = lease
        return settings
    }

    private var jobs: [String] { (0..<Self.count).map { "job \($0)" } }

    /// A worker that is registered and holds nothing.
    private func idleWorker(_ name: WorkerName? = nil, lease: Duration = .seconds(60)) -> Worker {
        let worker = Worker(settings(lease: lease), worker: name)
        worker.places = 0
        worker.run("connected") { worker.connects == 1 }
        return worker
    }

    private func save() throws {
        try server.ask("SAVE")
        try server.ask("CONFIG", "SET", "save", "")
    }

    private func returnToSave() throws {
        server.kill()
        try server.restart()
    }

    private func claimAll(_ worker: Worker, count: Int = count) {
        worker.claim(count)
        worker.forgetEvents()
    }

    private func warnings(of worker: Worker) -> [String] {
        var all: [String] = []
        for case .connected(let warnings) in worker.events { all += warnings }
        return all
    }

    @Test func `are put back if their push is lost, and each outcome has its effect`() throws {
        let worker = idleWorker()
        try save()
        try server.push(jobs)
        claimAll(worker)
        // Its retry is on its way when Redis returns.
        worker.settle(worker.jobs[0], .delay(job: bytes("later"), .after(.seconds(3600)), isRetry: true))
        try returnToSave()
        worker.run("connected again") { worker.connects == 1 }
        #expect(worker.disowned.isEmpty)
        try #require(worker.jobs.count == Self.count - 1)
        let warning = "Redis was put back to an earlier state: 300 jobs that this worker holds were put back"
        #expect(warnings(of: worker).contains(warning))
        worker.settle(worker.jobs[0], .deadLetter(record: bytes("dead"), isExpired: false))
        worker.settle(worker.jobs[0], .release(toTail: false))
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        #expect(status.counters[.sent] == Int64(Self.count - 3))
        #expect((status.delayed, status.dead, status.backlog, status.inFlight) == (1, 1, 1, 0))
        #expect(try server.list("jobs") == ["job 2"])
        // Nothing was claimed in this Redis: no other worker can have them.
        #expect(status.counters[.maybeDuplicate] == 0)
        #expect(status.unexplained == 0)
    }

    @Test(arguments: [0, 700])
    func `are taken out of the list if Redis has their push`(before: Int) throws {
        let worker = idleWorker()
        try server.push((0..<before).map { "before \($0)" } + jobs + ["next", "next"])
        try save()
        claimAll(worker, count: before + Self.count + 2)
        for job in worker.jobs.prefix(before) { worker.settle(job, .ack) }
        worker.run("sent") { !worker.queueHasWork }
        for job in worker.jobs.suffix(2) { worker.settle(job, .release(toTail: false)) }
        worker.run("released") { !worker.queueHasWork }
        try returnToSave()
        worker.run("connected again") { worker.connects == 1 }
        #expect(worker.texts == jobs)
        #expect(try server.list("jobs") == (0..<before).map { "before \($0)" } + ["next", "next"])
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        #expect(status.counters[.maybeDuplicate] == Int64(before))
        #expect(status.counters[.sent] == Int64(Self.count))
        #expect(status.unexplained == 0)
    }

    @Test func `are taken out of the list also if Redis has no worker yet`() throws {
        try server.push(jobs)
        try save()
        let worker = idleWorker()
        claimAll(worker)
        for job in worker.jobs.prefix(100) { worker.settle(job, .ack) }
        worker.run("sent") { !worker.queueHasWork }
        try returnToSave()
        worker.run("connected again") { worker.connects == 1 }
        #expect(try server.list("jobs") == Array(jobs.prefix(100)))
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        #expect(status.counters[.maybeDuplicate] == 100)
        #expect(status.unexplained == 0)
    }

    @Test func `are counted if they are too far back in the list to be found`() throws {
        try server.push((0..<3000).map { "job \($0)" })
        try save()
        let worker = idleWorker()
        claimAll(worker, count: 2600)
        for job in worker.jobs.prefix(2500) { worker.settle(job, .ack) }
        worker.run("sent") { !worker.queueHasWork }
        try returnToSave()
        worker.run("connected again") { worker.connects == 1 }
        #expect(try server.list("jobs").count == 3000)
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        // 2,500 that were pushed, and the 100 that the worker still held: all of them are pushed again.
        #expect(status.counters[.maybeDuplicate] == 2600)
        #expect(status.unexplained == 0)
    }

    @Test func `are counted if another worker has claimed them since`() throws {
        let worker = idleWorker()
        try server.push(jobs)
        try save()
        claimAll(worker)
        try returnToSave()
        let other = Worker(settings())
        other.run("all jobs, too") { other.jobs.count == Self.count }
        worker.run("connected again") { worker.connects == 1 }
        #expect(worker.jobs.count == Self.count)
        worker.acknowledgeAll()
        other.acknowledgeAll()
        worker.stop()
        other.stop()
        let status = try server.status()
        #expect(status.counters[.sent] == Int64(2 * Self.count))
        #expect(status.counters[.maybeDuplicate] == Int64(Self.count))
        #expect(status.unexplained == 0)
    }

    @Test func `are counted once for each of their tokens`() throws {
        let worker = idleWorker()
        try server.push([#"{"data": {}, "tokens" : ["0a", "0b", "0c"]}"#, #"{"token": "0d"}"#])
        try save()
        claimAll(worker, count: 2)
        try returnToSave()
        let other = Worker(settings())
        other.run("both jobs, too") { other.jobs.count == 2 }
        worker.run("connected again") { worker.connects == 1 }
        worker.stop()
        other.stop()
        #expect(try server.status().counters[.maybeDuplicate] == 4)
    }

    @Test func `are put back although the worker was taken over, if only older ones were`() throws {
        let worker = idleWorker(WorkerName(text: "slow", host: "elsewhere", pid: 1), lease: .milliseconds(500))
        try server.push(["old"])
        worker.places = 1
        worker.run("the old job") { worker.jobs.count == 1 }
        try save()
        try server.push(["new 1", "new 2"])
        worker.places = 1000
        worker.run("the new jobs") { worker.jobs.count == 3 }
        worker.places = 0
        try returnToSave()
        let heir = Worker(settings(lease: .milliseconds(500)))
        heir.run("the old job") { heir.texts == ["old"] }
        worker.forgetEvents()
        worker.run("back") {
            heir.step()
            return worker.connects == 1
        }
        #expect(worker.texts == ["new 1", "new 2"])
        #expect(worker.disowned.count == 1)
        heir.acknowledgeAll()
        worker.acknowledgeAll()
        heir.stop()
        worker.stop()
        let status = try server.status()
        #expect(status.counters[.sent] == 3)
        #expect(status.unexplained == 0)
    }

    @Test func `are put back into an emptied Redis, and the log states no other cause`() throws {
        let worker = idleWorker()
        try server.push(jobs)
        claimAll(worker)
        try server.ask("FLUSHALL")
        // The beat shows it.
        worker.acknowledgeFirst()
        worker.run("connected again") { worker.connects == 1 }
        #expect(!worker.isInDoubt)
        #expect(warnings(of: worker).contains("Redis was emptied: 300 jobs that this worker holds were put back"))
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        #expect(status.counters[.sent] == Int64(Self.count))
        #expect(status.counters[.maybeDuplicate] == 0)
        #expect(status.unexplained == 0)
    }

    @Test func `are put back within a bounded time beside a million jobs`() throws {
        let worker = idleWorker()
        try server.push((0..<1000).map { "job \($0)" })
        worker.claim(1000)
        try server.ask(
            "EVAL",
            "for i = 1, 1000 do local t = {} for k = 1, 1000 do t[k] = 'other ' .. i .. ' ' .. k end "
                + "redis.call('RPUSH', 'jobs', unpack(t)) end", "0")
        let name = worker.queue.worker
        for number in try server.ask("HKEYS", keys.chunks(name)).items ?? [] {
            try server.ask("DEL", keys.chunks(name) + ":" + (number.text ?? ""))
        }
        try server.ask("DEL", keys.chunks(name))
        try server.ask("CONFIG", "RESETSTAT")
        worker.forgetEvents()
        try server.ask("CLIENT", "KILL", "TYPE", "normal")
        worker.run("connected again") { worker.connects == 1 }
        let stats = try server.ask("INFO", "commandstats").text ?? ""
        print(stats.split(separator: "\n").filter { $0.contains("cmdstat_eval") }.joined(separator: "\n"))
        let status = try server.status()
        #expect(status.inFlight == 1000)
        #expect(status.counters[.maybeDuplicate] == 1000)
    }
}

@Suite("When a reply to a registration is lost, or two processes have one name")
struct RegistrationTests {
    private var redis: ModelRedis
    private var worker: ModelWorker
    private var now = Instant.now

    init() throws {
        redis = try ModelRedis()
        try redis.run("RPUSH", "jobs", "a", "b", "c")
        worker = ModelWorker(1, redis.settings, now: now)
        try Self.serve(&worker, redis, &now)
    }

    /// Runs the calls of the first connection, and delivers their replies.
    private static func pump(_ worker: inout ModelWorker, _ redis: ModelRedis, now: Instant) throws {
        while !worker.links[0].requests.isEmpty {
            let request = worker.links[0].requests.removeFirst()
            worker.links[0].replies.append((request.call, try redis.run(request.bytes)))
            worker.receive(on: 0, now: now, isGone: { _ in false })
        }
    }

    /// Gives turns until the worker serves and has nothing to do.
    private static func serve(_ worker: inout ModelWorker, _ redis: ModelRedis, _ now: inout Instant) throws {
        for _ in 0..<20 {
            worker.advance(now: now)
            try pump(&worker, redis, now: now)
            now += .milliseconds(500)
        }
        #expect(worker.isServing)
    }

    /// The next registration runs, and its reply is lost.
    private mutating func loseRegistration() throws {
        worker.lose(now: now)
        now += .seconds(6)
        worker.advance(now: now)
        let request = try #require(worker.links[0].requests.first)
        if case .register = request.call {} else { Issue.record("no registration: \(request.call)") }
        _ = try redis.run(request.bytes)
        worker.lose(now: now)
        now += .seconds(6)
    }

    private func counter(_ counter: Counter) throws -> Int64 { try redis.status().counters[counter] ?? 0 }

    @Test mutating func `settlements that Redis has lost are counted although the first reply was lost`() throws {
        #expect(worker.jobs.count == 3)
        try redis.save()
        for job in worker.jobs { worker.settle(job, .ack, now: now) }
        try Self.serve(&worker, redis, &now)
        #expect(try counter(.sent) == 3)
        try redis.restore()
        try loseRegistration()
        try Self.serve(&worker, redis, &now)
        #expect(worker.jobs.count == 3)
        for job in worker.jobs { worker.settle(job, .ack, now: now) }
        try Self.serve(&worker, redis, &now)
        #expect(try counter(.maybeDuplicate) == 3)
        let warnings = worker.warnings.count { $0.hasPrefix("Redis was put back to an earlier state") }
        #expect(warnings == 1)
        // The next registration finds nothing new.
        try loseRegistration()
        try Self.serve(&worker, redis, &now)
        #expect(try counter(.maybeDuplicate) == 3)
        #expect(worker.warnings.count { $0.hasPrefix("Redis was put back to an earlier state") } == warnings)
        #expect(try redis.status().unexplained == 0)
    }

    @Test mutating func `a retry of a job whose claim Redis has lost has its effect, although no connection broke`() throws {
        for job in worker.jobs { worker.settle(job, .ack, now: now) }
        try Self.serve(&worker, redis, &now)
        try redis.save()
        try redis.run("RPUSH", "jobs", "d")
        worker.lose(now: now)
        now += .seconds(6)
        try Self.serve(&worker, redis, &now)
        let job = try #require(worker.jobs.first)
        let record = Keys(list: "jobs").worker("w1")
        let number = try redis.run("HGET", record, "number").text ?? ""
        try redis.restore()
        try redis.run("HSET", record, "number", number)
        let delay = Settlement.Effect.delay(job: bytes("later"), .after(.seconds(3600)), isRetry: true)
        worker.settle(job, delay, now: now)
        try Self.serve(&worker, redis, &now)
        let status = try redis.status()
        #expect((status.delayed, status.inFlight, status.unexplained) == (1, 0, 0))
    }

    /// Another worker, 40 seconds later or as soon as it has jobs.
    private mutating func heir(waitsForJobs: Bool = true) throws -> ModelWorker {
        var heir = ModelWorker(2, redis.settings, now: now)
        for _ in 0..<40 where !waitsForJobs || heir.jobs.isEmpty {
            heir.advance(now: now)
            try Self.pump(&heir, redis, now: now)
            now += .seconds(1)
        }
        return heir
    }

    @Test mutating func `jobs that were taken over are disowned although the first reply was lost`() throws {
        let heir = try heir()
        #expect(heir.jobs.count == 3)
        try loseRegistration()
        try Self.serve(&worker, redis, &now)
        #expect(worker.jobs.isEmpty)
        #expect(worker.disowned.count == 3)
        #expect(try counter(.maybeDuplicate) == 3)
        #expect(try redis.status().unexplained == 0)
    }

    @Test mutating func `the second of two processes with one memory takes a new name, and no job is lost`() throws {
        var clone = worker
        try redis.run("RPUSH", "jobs", "d", "e", "f")
        clone.lose(now: now)
        now += .seconds(6)
        try Self.serve(&clone, redis, &now)
        for job in clone.jobs { clone.settle(job, .ack, now: now) }
        try Self.serve(&clone, redis, &now)
        #expect(clone.jobs.count == 3)
        #expect(clone.name == "w1")
        // The original notices with its next call.
        try Self.serve(&worker, redis, &now)
        #expect(worker.name == "w1'")
        #expect(worker.disowned.count == 3)
        for job in clone.jobs { clone.settle(job, .ack, now: now) }
        try Self.serve(&clone, redis, &now)
        let status = try redis.status()
        #expect(status.counters[.sent] == 6)
        #expect((status.backlog, status.inFlight, status.unexplained) == (0, 0, 0))
    }

    @Test mutating func `a process whose clone has settled its jobs and was taken over takes a new name`() throws {
        var clone = worker
        clone.lose(now: now)
        now += .seconds(6)
        try Self.serve(&clone, redis, &now)
        for job in clone.jobs { clone.settle(job, .ack, now: now) }
        try Self.serve(&clone, redis, &now)
        // The original has pushed them, too. Its batches have the same numbers.
        for job in worker.jobs { worker.settle(job, .ack, now: now) }
        _ = try heir(waitsForJobs: false)
        #expect(try redis.status().workers.map(\.name) == ["w2"])
        try Self.serve(&worker, redis, &now)
        #expect(worker.name == "w1'")
        let status = try redis.status()
        #expect((status.backlog, status.inFlight, status.unexplained) == (0, 0, 0))
        #expect(status.counters[.maybeDuplicate, default: 0] >= 3)
    }

    @Test mutating func `a process of the same name and another memory takes a new name`() throws {
        var twin = ModelWorker(1, redis.settings, now: now)
        try Self.serve(&twin, redis, &now)
        #expect(twin.name == "w1'")
        try Self.serve(&worker, redis, &now)
        #expect(worker.name == "w1")
        #expect(worker.jobs.count == 3)
        #expect(try redis.status().inFlight == 3)
    }

    @Test(arguments: ["9223372036854775807", "rubbish", "1e300", "nan", "inf", ""])
    mutating func `a damaged number in the record is left behind, and claims continue`(number: String) throws {
        let record = Keys(list: "jobs").worker("w1")
        try redis.run("HSET", record, "number", number)
        try redis.run("RPUSH", "jobs", "d")
        worker.lose(now: now)
        now += .seconds(6)
        try Self.serve(&worker, redis, &now)
        // With `nan`, which is not above any number, the record is continued.
        for _ in 0..<80 where worker.jobs.count < 3 {
            worker.advance(now: now)
            try Self.pump(&worker, redis, now: now)
            now += .milliseconds(500)
        }
        var texts: Set<String> = []
        for _ in 0..<4 {
            texts.formUnion(worker.jobs.map { String(decoding: $0.bytes, as: UTF8.self) })
            for job in worker.jobs { worker.settle(job, .ack, now: now) }
            try Self.serve(&worker, redis, &now)
        }
        #expect(texts == ["a", "b", "c", "d"])
        #expect(try redis.status().unexplained == 0)
    }

    @Test(arguments: ["rubbish", "9223372036854775807"])
    mutating func `a damaged settlement in the record is left behind`(settled: String) throws {
        try redis.run("HSET", Keys(list: "jobs").worker("w1"), "settled", settled)
        worker.lose(now: now)
        now += .seconds(6)
        try Self.serve(&worker, redis, &now)
        #expect(worker.name == "w1'")
    }

    @Test mutating func `the oldest records of dead workers are removed first`() throws {
        let keys = Keys(list: "jobs")
        for number in 0..<80 {
            let time = number == 5 ? 9_999_999_999_999 : 1_000_000 + number
            try redis.run("HSET", keys.stats, "reaped:old\(number)", "0", "taken:old\(number)|||", "\(time)")
        }
        try redis.run("HSET", keys.stats, "reaped:v2", "0")
        _ = try heir()
        let fields = try redis.run("HKEYS", keys.stats).items?.compactMap(\.text) ?? []
        #expect(fields.count { $0.hasPrefix("reaped:") } == 64)
        #expect(fields.count { $0.hasPrefix("taken:") } == 64)
        #expect(Set(fields).isSuperset(of: ["reaped:w1", "taken:w1|1|-1|1", "reaped:old5", "reaped:old79"]))
        #expect(Set(fields).isDisjoint(with: ["reaped:v2", "reaped:old0", "taken:old0|||"]))
    }
}
