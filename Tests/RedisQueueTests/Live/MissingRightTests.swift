import Harness
import Testing

@testable import RedisQueue

/// A call without a right fails and is repeated after a pause. It must have no effect, or each repetition would push jobs again.
@Suite("Without a right")
struct MissingRightTests {
    private let server: RedisServer

    init() throws { server = try RedisServer() }

    private func take(_ right: String) throws { try server.ask("ACL", "SETUSER", "default", "-\(right)") }

    @Test(arguments: ["zrem", "lpush"])
    func `no due job is promoted`(right: String) throws {
        let worker = Worker(server.settings())
        worker.run("connected") { worker.connects == 1 }
        try take(right)
        try server.ask("ZADD", "{jobs}:gapless:delayed", "1", "other:1|job")
        try server.ask("RPUSH", "jobs", "first")
        worker.run("a refusal") { worker.refusal != nil }
        #expect(!worker.texts.contains("job"))
        #expect(try !server.list("jobs").contains("job"))
        #expect(try server.ask("ZCARD", "{jobs}:gapless:delayed") == .integer(1))
    }

    @Test func `at most once, no recovered job is merged into the list`() throws {
        try server.ask("RPUSH", "{jobs}:gapless:recovered:1", "job")
        try take("rpop")
        var settings = server.settings()
        settings.mode = .atMostOnce
        let worker = Worker(settings)
        worker.run("a refusal") { worker.refusal != nil }
        #expect(worker.texts == [])
        #expect(try server.list("jobs") == [])
    }

    @Test(arguments: ["rpush", "lrange", "hget", "hset", "zrem", "hdel"])
    func `no job of a dead worker is moved`(right: String) throws {
        let keys = Keys(list: "jobs")
        var settings = server.settings()
        settings.lease = .seconds(1)
        let worker = Worker(settings)
        worker.places = 0
        worker.run("connected") { worker.connects == 1 }
        // A former process of this place: Linux assigns no PID this high.
        let dead = "\(WorkerName.make(instance: 1).text.split(separator: "-")[0])-4194305-1-1"
        try server.ask("HSET", keys.inflight(dead), "1", "old")
        try server.ask("HSET", keys.chunks(dead), "1", "0:11", "2", "3:1")
        try server.ask("RPUSH", keys.chunk(dead, 1), "one", "two")
        try server.ask("RPUSH", keys.chunk(dead, 2), "suspect")
        try server.ask("HSET", keys.holders, dead, "1")
        try server.ask("ZADD", keys.workers, "5", dead)
        try take(right)
        worker.run("a refusal") { worker.refusal != nil }
        #expect(try server.ask("EXISTS", keys.recovered[0], keys.recovered[1], keys.recovered[2]) == .integer(0))
        let kept = [keys.inflight(dead), keys.chunks(dead), keys.chunk(dead, 1), keys.chunk(dead, 2)]
        for key in kept { #expect(try server.ask("EXISTS", key) == .integer(1)) }
        #expect(try server.ask("KEYS", keys.chunks("*")).items?.count == 3)
        #expect(worker.suspects.isEmpty)
    }

    @Test(arguments: ["rpush", "lpush", "zadd", "hdel", "hset", "xadd"])
    func `no settlement of a batch is applied`(right: String) throws {
        try server.push(["one", "two", "three"])
        var settings = server.settings()
        settings.resultsKey = "results"
        let worker = Worker(settings)
        worker.run("the jobs") { worker.jobs.count == 3 }
        worker.places = 0
        let jobs = worker.jobs
        try take(right)
        worker.settle(jobs[0], .replace(with: bytes("again"), toTail: false))
        worker.settle(jobs[1], .deadLetter(record: bytes("letter"), isExpired: false))
        worker.settle(jobs[2], .delay(job: bytes("later"), .after(.seconds(60)), isRetry: true))
        worker.run("a refusal") { worker.refusal != nil }
        let keys = ["jobs", "{jobs}:gapless:dead", "{jobs}:gapless:delayed", "results"]
        #expect(try keys.filter { try server.ask("EXISTS", $0) != .integer(0) } == [])
        #expect(try server.status().inFlight == 3)
    }

    @Test(arguments: ["rpush", "lpush", "ltrim", "lrange", "llen", "hget", "hdel"])
    func `no dead letter is requeued`(right: String) throws {
        try server.ask("RPUSH", "{jobs}:gapless:dead", "first", "letter")
        var client = try RedisClient(settings: server.settings())
        try take(right)
        let steps = [
            DeadLetterList.Step(record: bytes("first"), change: .keep),
            DeadLetterList.Step(record: bytes("letter"), change: .requeue(job: bytes("job"))),
        ]
        #expect(throws: RedisError.self) { try DeadLetterList(Keys(list: "jobs")).apply(steps, &client) }
        try server.ask("ACL", "SETUSER", "default", "+@all")
        #expect(try server.list("{jobs}:gapless:dead") == ["first", "letter"])
        #expect(try server.list("jobs") == [])
    }

    @Test func `letters are passed and put back without LMOVE`() throws {
        try server.ask("RPUSH", "{jobs}:gapless:dead", "first", "letter", "last")
        var client = try RedisClient(settings: server.settings())
        try take("lmove")
        let letters = DeadLetterList(Keys(list: "jobs"))
        let steps = [
            DeadLetterList.Step(record: bytes("first"), change: .keep),
            DeadLetterList.Step(record: bytes("letter"), change: .requeue(job: bytes("job"))),
        ]
        #expect(try letters.apply(steps, &client))
        #expect(try server.list("{jobs}:gapless:dead:passed") == ["first"] && server.list("jobs") == ["job"])
        #expect(try letters.putBack(&client) == 1 && letters.putBack(&client) == 0)
        #expect(try server.list("{jobs}:gapless:dead") == ["first", "last"])
    }

    @Test(arguments: [("lset", WaitingJobs.Source.waiting), ("lrem", .waiting), ("zrem", .delayed)])
    func `no job is cancelled`(right: String, source: WaitingJobs.Source) throws {
        try server.ask("RPUSH", "jobs", "job")
        try server.ask("ZADD", "{jobs}:gapless:delayed", "1", "job")
        var client = try RedisClient(settings: server.settings())
        try take(right)
        let move = CancelledJobs.Move(fromTail: 1, element: bytes("job"), record: bytes("record"))
        #expect(throws: RedisError.self) { try CancelledJobs(Keys(list: "jobs")).cancel([move], from: source, &client) }
        #expect(try server.list("{jobs}:gapless:cancelled") == [])
    }

    @Test(arguments: ["rpush", "lpush", "ltrim", "lrange", "llen", "zadd"])
    func `no cancelled job is restored`(right: String) throws {
        try server.ask("RPUSH", "{jobs}:gapless:cancelled:passed", "record", "kept")
        var client = try RedisClient(settings: server.settings())
        try take(right)
        let steps = [
            CancelledJobs.Restore(record: bytes("kept"), change: .keep),
            CancelledJobs.Restore(record: bytes("record"), change: .push(bytes("job"))),
        ]
        #expect(throws: RedisError.self) { try CancelledJobs(Keys(list: "jobs")).restore(steps, &client) }
        try server.ask("ACL", "SETUSER", "default", "+@all")
        #expect(try server.list("{jobs}:gapless:cancelled:passed") == ["record", "kept"])
        #expect(try server.list("jobs") == [])
    }
}
