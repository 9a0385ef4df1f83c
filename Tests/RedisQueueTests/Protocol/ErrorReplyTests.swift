import Harness
import Testing

@testable import RedisQueue

@Suite("A failing Redis")
struct ErrorReplyTests {
    private func worker(_ server: RedisServer, lease: Duration = .seconds(15)) -> Worker {
        var settings = server.settings()
        settings.lease = lease
        return Worker(settings)
    }

    private func isReply(_ error: RedisError?, _ kind: ErrorReply.Kind) -> Bool {
        if case .reply(let reply)? = error { reply.kind == kind } else { false }
    }

    @Test func `kill -9 of a Redis with an append-only file loses no job and doubles none`() throws {
        // With `everysec`, Redis replies before it writes while an earlier write to the disk lasts.
        let server = try RedisServer(options: ["--appendonly", "yes", "--appendfsync", "always"])
        try server.push((0..<3000).map(String.init))
        let worker = worker(server)
        worker.places = 500
        var seen: [String] = []
        worker.run("some jobs") { worker.jobs.count > 100 }
        worker.onJob = { job in
            seen.append(String(decoding: job.bytes, as: UTF8.self))
            return Settlement(id: job.id, effect: .ack)
        }
        seen += worker.texts
        worker.acknowledgeAll()
        for _ in 0..<3 { worker.step() }
        server.kill()
        for _ in 0..<20 { worker.step() }
        try server.restart()
        try worker.run("all sent") { try server.status().counters[.sent] == 3000 }
        worker.stop()
        #expect(seen.count == 3000)
        #expect(Set(seen).count == 3000)
        let status = try server.status()
        #expect(status.unexplained == 0)
        #expect(status.counters[.maybeDuplicate] == 0)
        #expect(status.counters[.fenced] == 0)
    }

    @Test func `a Redis that was emptied gets back what the worker holds`() throws {
        let server = try RedisServer()
        try server.push((0..<600).map(String.init))
        let worker = worker(server, lease: .seconds(1))
        worker.run("all jobs") { worker.jobs.count == 600 }
        worker.forgetEvents()
        try server.ask("FLUSHALL")
        worker.run("noticed") { worker.connects == 1 }
        #expect(try server.status().inFlight == 600)
        try #require(worker.jobs.count == 600)
        worker.settle(worker.jobs[0], .delay(job: bytes("later"), .after(.seconds(100)), isRetry: true))
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        #expect(status.delayed == 1)
        #expect(status.counters[.sent] == 599)
        #expect(status.unexplained == 0)
        #expect(status.counters[.maybeDuplicate] == 0)
    }

    @Test func `the jobs of a Redis that was rolled back are pushed again and counted`() throws {
        let server = try RedisServer()
        try server.push((0..<10).map(String.init))
        let worker = worker(server)
        worker.run("all jobs") { worker.jobs.count == 10 }
        worker.settle(worker.jobs[0], .ack)
        try worker.run("one sent") { try server.status().counters[.sent] == 1 }
        try server.ask("SAVE")
        try server.ask("CONFIG", "SET", "save", "")
        for job in worker.jobs.prefix(4) { worker.settle(job, .ack) }
        try worker.run("five sent") { try server.status().counters[.sent] == 5 }
        server.kill()
        try server.restart()
        worker.forgetEvents()
        worker.run("four come again") { worker.jobs.count == 9 }
        try worker.run("counted") { try server.status().counters[.maybeDuplicate] == 4 }
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        #expect(status.counters[.sent] == 10)
        #expect(status.unexplained == 0)
    }

    @Test func `scripts that were flushed are sent again in full, and batches keep their order`() throws {
        let server = try RedisServer()
        try server.push((0..<5000).map(String.init))
        let worker = worker(server)
        worker.onJob = { Settlement(id: $0.id, effect: .ack) }
        var turns = 0
        try worker.run("all sent") {
            turns += 1
            if turns.isMultiple(of: 3) { try server.ask("SCRIPT", "FLUSH") }
            return try turns.isMultiple(of: 10) && server.status().counters[.sent] == 5000
        }
        #expect(worker.connects == 1)
        worker.stop()
        #expect(try server.status().unexplained == 0)
        #expect(try server.status().counters[.maybeDuplicate] == 0)
    }

    @Test func `a wrong password is reported without the password, and works once it is right`() throws {
        let server = try RedisServer()
        try server.ask("CONFIG", "SET", "requirepass", "right")
        let worker = Worker(server.settings(password: "secret-and-wrong"))
        worker.run("refused") { worker.refusal != nil }
        #expect(worker.refusal == .authenticationRefused(code: "WRONGPASS", isNeedless: false))
        #expect(worker.refusal?.description.contains("secret") == false)
        try server.ask("CONFIG", "SET", "requirepass", "secret-and-wrong", password: "right")
        worker.run("connected") { worker.connects == 1 }
        let anonymous = Worker(server.settings())
        anonymous.run("refused") { anonymous.refusal != nil }
        #expect(anonymous.refusal == .reply(ErrorReply("NOAUTH Authentication required.")))
        worker.stop()
    }

    @Test func `a wrong type at a key is reported, and the queue continues once the key is removed`() throws {
        let server = try RedisServer()
        try server.push(["a", "b"])
        let worker = worker(server)
        worker.places = 1
        worker.run("one job") { worker.jobs.count == 1 }
        try server.ask("RENAME", "jobs", "aside")
        try server.ask("SET", "jobs", "x")
        worker.places = 10
        worker.run("refused") { worker.refusal != nil }
        #expect(isReply(worker.refusal, .wrongType))
        try server.ask("RENAME", "aside", "jobs")
        worker.run("the other job") { worker.jobs.count == 2 }
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 2)
        #expect(try server.status().unexplained == 0)
    }

    @Test func `a Redis out of memory still drains`() throws {
        let server = try RedisServer()
        try server.push((0..<3000).map { "\($0)" + String(repeating: "x", count: 300) })
        try server.ask("CONFIG", "SET", "maxmemory", "1mb")
        let worker = worker(server)
        worker.onJob = { job in
            switch job.id.number % 10 {
            case 0: Settlement(id: job.id, effect: .deadLetter(record: job.bytes, isExpired: false), feedback: job.bytes)
            case 1: Settlement(id: job.id, effect: .delay(job: job.bytes, .after(.milliseconds(20)), isRetry: true))
            default: Settlement(id: job.id, effect: .ack)
            }
        }
        try worker.run("drained") {
            let status = try server.status()
            return status.backlog + status.delayed + status.inFlight == 0
        }
        for _ in 0..<30 { worker.step() }  // The blocking command is refused now. The connection stays.
        #expect(worker.connects == 1)
        #expect(!worker.isDisconnected)
        worker.stop()
        let status = try server.status()
        #expect(status.counters[.sent, default: 0] + status.counters[.dead, default: 0] == 3000)
        #expect(status.unexplained == 0)
        #expect(status.workers.isEmpty)
    }

    @Test func `without BLMOVE the list is polled`() throws {
        let server = try RedisServer()
        try server.ask("ACL", "SETUSER", "default", "-blmove")
        let worker = worker(server)
        worker.run("connected") { worker.connects == 1 }
        for _ in 0..<30 { worker.step() }
        try server.push(["a"])
        worker.run("the job") { worker.jobs.count == 1 }
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 1)
    }

    @Test func `a missing right is reported, and half a script loses no job`() throws {
        let server = try RedisServer()
        try server.push((0..<20).map(String.init))
        try server.ask("ACL", "SETUSER", "limited", "on", ">pw", "~*", "+@all", "-ltrim")
        var settings = server.settings(password: "pw")
        settings.username = "limited"
        let worker = Worker(settings)
        worker.run("refused") { worker.refusal != nil }
        #expect(isReply(worker.refusal, .rightMissing(isCommand: true)))
        #expect(try server.status().backlog == 20)
        #expect(try server.status().inFlight == 0)
        try server.ask("ACL", "SETUSER", "limited", "+ltrim")
        worker.run("all jobs") { worker.jobs.count == 20 }
        #expect(Set(worker.texts).count == 20)
        worker.stop()
        #expect(try server.status().backlog == 20)
    }

    @Test func `a server that became a replica is dialled again`() throws {
        let server = try RedisServer()
        try server.push(["a"])
        let worker = worker(server)
        worker.run("the job") { worker.jobs.count == 1 }
        try server.ask("REPLICAOF", "127.0.0.1", "1")
        worker.acknowledgeAll()
        worker.run("disconnected") { worker.isDisconnected }
        worker.forgetEvents()
        try server.ask("REPLICAOF", "NO", "ONE")
        worker.run("connected again") { worker.connects == 1 }
        worker.stop()
        #expect(try server.status().counters[.sent] == 1)
        #expect(try server.status().counters[.maybeDuplicate] == 0)
    }

    @Test func `dangerous settings of the server cause one warning each`() throws {
        let server = try RedisServer(options: ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"])
        let worker = worker(server)
        worker.run("connected") { worker.connects == 1 }
        guard case .connected(let warnings)? = worker.events.first(where: { if case .connected = $0 { true } else { false } })
        else {
            Issue.record("no event")
            return
        }
        #expect(warnings.count == 2)
        worker.stop()
        let safe = try RedisServer(options: ["--appendonly", "yes"])
        let other = Worker(safe.settings())
        other.run("connected") { other.connects == 1 }
        #expect(other.events.contains(.connected(warnings: [])))
        other.stop()
    }
}
