import Glibc
import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("Jobs in flight as lists")
struct ChunkTests {
    let server: RedisServer
    let keys = Keys(list: "jobs")

    init() throws { server = try RedisServer() }

    private var settings: QueueSettings {
        var settings = server.settings()
        settings.lease = .seconds(1)
        return settings
    }

    private func stranger(_ name: String) -> WorkerName { WorkerName(text: name, host: "elsewhere", pid: 1) }

    @Test func `Redis has the jobs of a claim as a list, and marks the settled ones`() throws {
        try server.push(["a", "b", "c"])
        let worker = Worker(server.settings(), worker: stranger("w"))
        worker.places = 3
        worker.run("three jobs") { worker.jobs.count == 3 }
        #expect(try server.list(keys.chunk("w", 1)) == ["a", "b", "c"])
        worker.places = 0
        worker.settle(worker.jobs[1], .ack)
        try worker.run("one sent") { try server.status().counters[.sent] == 1 }
        #expect(try server.ask("HGET", keys.chunks("w"), "1").text?.withoutRank == "0:101")
        #expect(try server.status().inFlight == 2)
        worker.acknowledgeAll()
        try worker.run("all sent") { try server.status().counters[.sent] == 3 }
        #expect(try server.ask("EXISTS", keys.chunk("w", 1), keys.chunks("w")) == .integer(0))
        worker.stop()
    }

    @Test func `of a dead worker's chunk the jobs that are not settled are taken over in order`() throws {
        try server.push((0..<9).map(String.init))
        let dead = Worker(settings, worker: stranger("dead"))
        dead.claim(9)
        for job in dead.jobs where job.id.place % 3 == 1 { dead.settle(job, .ack) }
        try dead.run("three sent") { try server.status().counters[.sent] == 3 }
        let heir = Worker(settings)
        heir.run("the others") { heir.jobs.count == 6 }
        #expect(heir.texts == ["0", "2", "3", "5", "6", "8"])
        #expect(try server.ask("EXISTS", keys.chunk("dead", 1), keys.chunks("dead")) == .integer(0))
        heir.acknowledgeAll()
        heir.stop()
        #expect(try server.status().unexplained == 0)
        #expect(try server.ask("EXISTS", keys.holders) == .integer(0))
    }

    @Test(arguments: [false, true])
    func `jobs in the hash of an older version are taken over with their crashes`(isComplete: Bool) throws {
        try server.ask("HSET", keys.inflight("old"), "9", "b", "10", "c", "7", "a", "11:1", "d", "12:2", "e", "13:3", "f")
        try server.ask("ZADD", keys.workers, "5", "old")
        try server.ask("HINCRBY", keys.stats, "claimed", "6")
        if isComplete { try server.ask("HSET", keys.worker("old"), "number", "1", "settled", "3") }
        #expect(try server.status().inFlight == 6)
        let heir = Worker(settings)
        heir.places = 0
        heir.run("the suspect") { heir.suspects.count == 1 }
        #expect(try server.list(keys.recovered[0]) == ["a", "b", "c"])
        #expect(try server.list(keys.recovered[1]) == ["d"])
        #expect(try server.list(keys.recovered[2]) == ["e"])
        #expect(heir.suspects.map(\.bytes) == [bytes("f")])
        for job in heir.suspects { heir.settle(job, .deadLetter(record: bytes("suspect"), isExpired: false)) }
        heir.stop()
        #expect(try server.status().unexplained == 0)
        #expect(try server.ask("EXISTS", keys.inflight("old"), keys.worker("old")) == .integer(0))
    }

    @Test func `a worker that delivers at most once settles a suspect of another one for good`() throws {
        try server.ask("HSET", keys.inflight("old"), "13:3", "f")
        try server.ask("ZADD", keys.workers, "5", "old")
        try server.ask("HINCRBY", keys.stats, "claimed", "1")
        var settings = settings
        settings.mode = .atMostOnce
        let heir = Worker(settings)
        heir.run("the suspect") { heir.suspects.count == 1 }
        try server.push(["a"])
        heir.run("a job") { heir.texts == ["a"] }
        heir.acknowledgeAll()
        for job in heir.suspects { heir.settle(job, .deadLetter(record: bytes("suspect"), isExpired: false)) }
        heir.forgetSuspects()
        heir.stop()
        #expect(heir.suspects.isEmpty)
        #expect(try server.list(keys.dead) == ["suspect"])
        #expect(try server.status().inFlight == 0)
        #expect(try server.status().counters[.claimed] == 2)
        #expect(try server.status().unexplained == 0)
        #expect(try server.ask("EXISTS", keys.holders) == .integer(0))
    }

    @Test func `a worker that an older version removed still has its jobs taken over after a lease`() throws {
        try server.push(["a", "b"])
        let removed = Worker(settings, worker: stranger("removed"))
        removed.run("two jobs") { removed.jobs.count == 2 }
        // An older version knows nothing of chunks.
        try server.ask("ZREM", keys.workers, "removed")
        try server.ask("DEL", keys.worker("removed"))
        #expect(try server.status().inFlight == 2)
        let heir = Worker(settings)
        heir.run("both jobs") { heir.jobs.count == 2 }
        #expect(heir.texts == ["a", "b"])
        heir.acknowledgeAll()
        heir.stop()
        #expect(try server.status().unexplained == 0)
        #expect(try server.ask("EXISTS", keys.holders, keys.chunks("removed")) == .integer(0))
    }

    @Test func `a removed worker that is alive registers again, and no job is taken over twice`() throws {
        try server.push(["a", "b"])
        let removed = Worker(settings, worker: stranger("removed"))
        removed.run("two jobs") { removed.jobs.count == 2 }
        try server.ask("ZREM", keys.workers, "removed")
        try server.ask("DEL", keys.worker("removed"))
        removed.forgetEvents()
        removed.run("registered again") { removed.connects == 1 }
        #expect(removed.disowned.isEmpty)
        removed.acknowledgeAll()
        removed.stop()
        #expect(try server.status().counters[.sent] == 2)
        #expect(try server.status().unexplained == 0)
    }

    @Test func `small jobs before large ones arrive in bounded batches`() throws {
        let large = String(repeating: "x", count: 200_000)
        let jobs = (0..<40).map(String.init) + (0..<20).map { "\($0)" + large }
        try server.push(jobs)
        let worker = Worker(server.settings())
        worker.run("all") { worker.jobs.count == jobs.count }
        for case .claimed(let jobs) in worker.events { #expect(jobs.reduce(0) { $0 + $1.bytes.count } <= ClaimSize.mostBytes) }
        #expect(worker.texts == jobs)
        worker.stop()
        #expect(try server.status().backlog == jobs.count)
    }

    /// Redis would copy 30 MB for each claim of a few small jobs.
    @Test func `a claim of small jobs does not copy the large ones behind them`() throws {
        let small = (0..<100).map { "\($0)" + String(repeating: "x", count: 3000) }
        try server.push(small + (0..<30).map { "\($0)" + String(repeating: "x", count: 1_000_000) })
        let folder = TemporaryFolder()
        let monitor = try ChildProcess(
            "redis-cli", ["-s", server.socketPath, "monitor"], standardOutput: .file(folder.file("commands")))
        #expect(waitUntil { File.read(folder.file("commands")).contains("OK") })
        let worker = Worker(server.settings())
        worker.run("the small jobs") { worker.jobs.count >= small.count }
        worker.stop()
        let limit = #""BY" "nosort" "LIMIT" "0" ""#
        #expect(waitUntil { File.read(folder.file("commands")).contains(limit) })
        let first = try #require(File.read(folder.file("commands")).split(separator: limit, maxSplits: 1).last)
        #expect(Int(first.prefix { $0 != "\"" }).map { 1...40 ~= $0 } == true)
        monitor.kill(SIGTERM)
        #expect(monitor.wait().signal == SIGTERM)
    }

    @Test(arguments: ["-sort", "-memory"])
    func `without SORT or MEMORY a script copies the jobs, in bounded batches`(right: String) throws {
        try server.ask("ACL", "SETUSER", "narrow", "reset", "on", ">secret", "~*", "+@all", right)
        var settings = server.settings(password: "secret")
        settings.username = "narrow"
        settings.timeout = .seconds(20)  // Lua hashes a job of 24 MiB.
        let large = String(repeating: "x", count: 200_000)
        let jobs = (0..<40).map(String.init) + (0..<20).map { "\($0)" + large } + (0..<300).map(String.init)
        try server.push(jobs)
        let worker = Worker(settings)
        worker.run("all") { worker.jobs.count == jobs.count }
        for case .claimed(let jobs) in worker.events { #expect(jobs.reduce(0) { $0 + $1.bytes.count } <= ClaimSize.mostBytes) }
        #expect(worker.texts == jobs)
        #expect(worker.events.count { $0 == .limited(.copying) } == 1)
        let huge = ClaimedJob.mostBytes + 1
        try server.push([String(repeating: "x", count: huge)])
        worker.run("the large job") { worker.jobs.last?.fullSize == huge }
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == Int64(jobs.count) + 1)
        #expect(try server.status().unexplained == 0)
        #expect(try server.ask("EXISTS", keys.holders) == .integer(0))
    }

    @Test func `of a job of more than 24 MiB only the size and the beginning arrive, and it returns whole`() throws {
        let huge = ClaimedJob.mostBytes + 1
        try server.push([String(repeating: "x", count: huge), "next"])
        var settings = server.settings()
        settings.timeout = .seconds(20)  // Lua hashes a job of 24 MiB that is given back.
        let worker = Worker(settings)
        worker.run("both jobs") { worker.jobs.count == 2 }
        #expect(worker.jobs.map(\.fullSize) == [huge, nil])
        #expect(worker.jobs[0].bytes.count == ClaimedJob.headBytes)
        #expect(try server.status().inFlight == 2)
        worker.stop()
        #expect(try server.list("jobs").map(\.utf8.count) == [huge, 4])
        #expect(try server.status().unexplained == 0)
    }

    @Test(arguments: [1, 2])
    func `a claim with a number that is in use changes nothing`(later: UInt64) throws {
        let redis = try RestrictedRedis()
        try redis.send(.register(.init(counter: 1, confirmed: 0, isExpected: false)))
        try redis.ask("RPUSH", "jobs", "a", "b", "c")
        try redis.send(.claim(.init(chunk: 2, count: 1, fromSecond: 0)))
        let again = Call.claim(.init(chunk: later, count: 2, fromSecond: 0))
        #expect(try redis.send(again) == .string(bytes("TAKEN")))
        #expect(try redis.ask("LRANGE", keys.chunk("w", 2), "0", "-1") == .array([.string(bytes("a"))]))
        #expect(try redis.ask("HGETALL", keys.chunks("w")).items?.compactMap(\.text).map(\.withoutRank) == ["2", "0:1"])
        #expect(try redis.ask("LLEN", "jobs") == .integer(2))
        #expect(try redis.ask("HGET", keys.stats, "claimed") == .string(bytes("1")))
    }

    /// A process that was put back in time, as with the snapshot of its machine.
    @Test func `a worker that claims with a number that is in use registers again, and pushes the jobs of that chunk`() throws {
        try server.push(["a", "b", "c"])
        try server.ask("HSET", keys.chunks("w"), "1", "0:1")
        try server.ask("RPUSH", keys.chunk("w", 1), "old")
        let worker = Worker(server.settings(), worker: stranger("w"))
        worker.run("all jobs") { worker.jobs.count == 4 }
        #expect(Set(worker.texts) == ["a", "b", "c", "old"])
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 4)
    }

    @Test func `jobs of a worker without a record are audited by the list that has them`() throws {
        try server.push(["a"])
        let worker = Worker(server.settings(), worker: stranger("w"))
        worker.run("the job") { worker.jobs.count == 1 }
        var client = try RedisClient(settings: server.settings())
        #expect(try QueueAudit.read(&client, keys).foreignKeys == [])
        try server.ask("RPUSH", keys.chunk("w", 99), "x")
        try server.ask("RPUSH", keys.chunk("unknown", 1), "x")
        #expect(try QueueAudit.read(&client, keys).foreignKeys == [keys.chunk("unknown", 1), keys.chunk("w", 99)])
        worker.stop()
    }
}
