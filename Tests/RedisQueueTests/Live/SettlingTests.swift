import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("Claiming and settling")
struct SettlingTests {
    let server: RedisServer

    init() throws { server = try RedisServer() }

    @Test func `a claimed job is in flight until it is acknowledged, and leaves nothing behind`() throws {
        try server.push(["one", "two", "three"])
        let worker = Worker(server.settings())
        worker.run("three jobs") { worker.jobs.count == 3 }
        #expect(worker.texts == ["one", "two", "three"])
        #expect(try server.status().inFlight == 3)
        #expect(try server.status().backlog == 0)
        worker.acknowledgeAll()
        try worker.run("in flight 0") { try server.status().inFlight == 0 }
        worker.stop()
        let keys = try server.ask("KEYS", "*").items?.compactMap(\.text)
        #expect(keys == ["{jobs}:gapless:stats"])
        let status = try server.status()
        #expect(status.counters[.claimed] == 3)
        #expect(status.counters[.sent] == 3)
        #expect(status.counters[.maybeDuplicate] == 0)
        #expect(status.unexplained == 0)
    }

    @Test func `results that wait when the settings lose their key are still written`() throws {
        try server.push(["one", "two"])
        var settings = server.settings()
        settings.resultsKey = "results"
        let worker = Worker(settings)
        worker.run("two jobs") { worker.jobs.count == 2 }
        worker.settle(worker.jobs[0], .ack, result: [bytes("status"), bytes("200")])
        worker.queue.adopt(server.settings(), tls: nil)
        worker.settle(worker.jobs[0], .ack)
        worker.run("both are settled") { !worker.queueHasWork }
        #expect(try server.ask("XLEN", "results").integer == 1)
        #expect(try server.status().counters[.sent] == 2)
        worker.stop()
    }

    @Test func `a job that is pushed ends the wait of a worker`() throws {
        let worker = Worker(server.settings())
        try worker.run("waiting") { try server.ask("CLIENT", "LIST").text?.contains("cmd=blmove") == true }
        try server.push(["late"])
        worker.run("the job") { !worker.jobs.isEmpty }
        worker.stop()
        #expect(try server.list("jobs") == ["late"])
    }

    @Test func `a retry waits in the delayed set and returns in its new form`() throws {
        try server.push(["job"])
        let worker = Worker(server.settings())
        worker.run("the job") { !worker.jobs.isEmpty }
        worker.settle(worker.jobs[0], .delay(job: bytes("job|again"), .after(.milliseconds(300)), isRetry: true))
        try worker.run("delayed") { try server.status().delayed == 1 }
        worker.run("again") { !worker.jobs.isEmpty }
        #expect(worker.texts == ["job|again"])
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        #expect(status.delayed == 0)
        #expect(status.counters[.retried] == 1)
        #expect(status.counters[.claimed] == 2)
        #expect(status.unexplained == 0)
    }

    /// The clock of the worker is behind that of Redis.
    @Test func `a due time that has passed becomes the next second`() throws {
        try server.push(["job"])
        let worker = Worker(server.settings())
        worker.run("the job") { !worker.jobs.isEmpty }
        let before = try #require(try server.ask("TIME").items?.first?.text.flatMap { Int64($0) }) * 1000
        worker.settle(worker.jobs[0], .delay(job: bytes("job"), .at(milliseconds: before - 60_000), isRetry: false))
        try worker.run("delayed") { try server.status().delayed == 1 }
        let entry = try server.ask("ZRANGE", Keys(list: "jobs").delayed, "0", "0", "WITHSCORES").items
        #expect(try #require(entry?.last?.text.flatMap { Int64($0) }) >= before + 1000)
        worker.run("again") { !worker.jobs.isEmpty }
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().unexplained == 0)
    }

    @Test func `equal jobs that are delayed together stay separate`() throws {
        try server.push(Array(repeating: "same", count: 500))
        let worker = Worker(server.settings())
        worker.onJob = { Settlement(id: $0.id, effect: .delay(job: bytes("more"), .after(.milliseconds(50)), isRetry: true)) }
        try worker.run("all have failed once") { try server.status().counters[.retried] == 500 }
        worker.onJob = nil
        worker.run("all are back") {
            worker.jobs.count + 0 >= 1 && worker.texts.allSatisfy { $0 == "more" } && worker.jobs.count == 500
        }
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 500)
    }

    @Test func `dead letters, feedback and results are written in the step that settles`() throws {
        try server.push(["bad", "late", "good"])
        var settings = server.settings()
        settings.resultsKey = "{jobs}:results"
        let worker = Worker(settings)
        worker.run("three jobs") { worker.jobs.count == 3 }
        let jobs = worker.jobs
        worker.settle(
            jobs[0], .deadLetter(record: bytes("r1"), isExpired: false), feedback: bytes("f1"), result: [bytes("a"), bytes("b")])
        worker.settle(jobs[1], .deadLetter(record: bytes("r2"), isExpired: true))
        worker.settle(jobs[2], .ack, result: [bytes("c"), bytes("d")])
        worker.stop()
        #expect(try server.list("{jobs}:gapless:dead") == ["r1", "r2"])
        #expect(try server.list("{jobs}:gapless:feedback") == ["f1"])
        #expect(try server.ask("XLEN", "{jobs}:results") == .integer(2))
        let status = try server.status()
        #expect(status.counters[.dead] == 1)
        #expect(status.counters[.expired] == 1)
        #expect(status.counters[.sent] == 1)
        #expect(status.unexplained == 0)
    }

    @Test func `a batch that fails in the middle continues behind the settlements that it has applied`() throws {
        let (redis, keys) = (try RestrictedRedis(), Keys(list: "jobs"))
        try redis.send(.register(.init(counter: 1, confirmed: 0, isExpected: false)))
        try redis.ask("RPUSH", "jobs", "a", "b", "c")
        try redis.send(.claim(.init(chunk: 1, count: 2, fromSecond: 0)))
        try redis.send(.claim(.init(chunk: 3, count: 1, fromSecond: 0)))
        var (held, batch) = (Chunks(), SettleBatch())
        held.insert(["a", "b"].enumerated().map { ClaimedJob(id: ClaimID(chunk: 1, place: $0), bytes: bytes($1)) }, chunk: 1)
        held.insert([ClaimedJob(id: ClaimID(chunk: 3, place: 0), bytes: bytes("c"))], chunk: 3)
        batch.sequence = 1
        batch.addAcknowledgement(ClaimID(chunk: 1, place: 1))
        let letter = Settlement.Effect.deadLetter(record: bytes("letter"), isExpired: false)
        batch.add(Settlement(id: ClaimID(chunk: 1, place: 0), effect: letter, feedback: bytes("note")), job: nil)
        batch.add(Settlement(id: ClaimID(chunk: 3, place: 0), effect: .release(toTail: true)), job: nil)
        held.address(&batch)
        // No trial finds that this list is none.
        try redis.ask("RENAME", keys.chunk("w", 3), "saved")
        try redis.ask("SET", keys.chunk("w", 3), "text")
        for _ in 0..<3 { #expect(throws: RedisError.self) { try redis.send(.settle(batch)) } }
        let entries = try redis.ask("HGETALL", keys.chunks("w")).items?.compactMap(\.text).map(\.withoutRank)
        #expect(entries == ["1", "0:01", "3", "0:1"])
        try redis.ask("RENAME", "saved", keys.chunk("w", 3))
        try redis.send(.settle(batch))
        #expect(try redis.ask("LRANGE", keys.dead, "0", "-1").items?.compactMap(\.text) == ["letter"])
        #expect(try redis.ask("LRANGE", keys.feedback, "0", "-1").items?.compactMap(\.text) == ["note"])
        #expect(try redis.ask("LRANGE", "jobs", "0", "-1").items?.compactMap(\.text) == ["c"])
        let counters = ["claimed", "sent", "dead", "released", "maybe_duplicate"]
        let counted = try redis.ask(["HMGET", keys.stats] + counters).items?.map(\.text)
        #expect(counted == ["3", "1", "1", "1", nil])
        #expect(try redis.ask("EXISTS", keys.chunks("w"), keys.chunk("w", 1), keys.chunk("w", 3)) == .integer(0))
    }

    @Test func `a batch that fails in the middle repeats no effect, although its worker registers again each time`() throws {
        try server.push(["a", "b"])
        var settings = server.settings()
        settings.resultsKey = "results"
        // No trial finds that this stream takes no more entries.
        try server.ask("XADD", "results", "18446744073709551615-18446744073709551615", "last", "entry")
        let worker = Worker(settings)
        worker.run("two jobs") { worker.jobs.count == 2 }
        worker.settle(worker.jobs[0], .deadLetter(record: bytes("letter"), isExpired: false))
        worker.settle(worker.jobs[0], .ack, result: [bytes("status"), bytes("200")])
        worker.run("four attempts") { worker.events.count { $0 == .resumed } >= 3 }
        #expect(try server.list("{jobs}:gapless:dead") == ["letter"])
        try server.ask("DEL", "results")
        worker.run("settled") { !worker.queueHasWork }
        worker.stop()
        #expect(try server.list("{jobs}:gapless:dead") == ["letter"])
        #expect(try server.ask("XLEN", "results") == .integer(1))
        let status = try server.status()
        #expect(status.counters[.dead] == 1 && status.counters[.sent] == 1 && status.counters[.maybeDuplicate] == 0)
        #expect(status.counters[.claimed] == 2 && status.unexplained == 0)
    }

    @Test(arguments: RecordList.allCases)
    func `the oldest records beyond the maximum of their list are dropped and counted`(records: RecordList) throws {
        try server.push((0..<10).map(String.init))
        var settings = server.settings()
        switch records {
        case .deadLetters: settings.deadLetterMax = 4
        case .feedback: settings.feedbackMax = 4
        }
        let worker = Worker(settings)
        worker.onJob = { Settlement(id: $0.id, effect: .deadLetter(record: $0.bytes, isExpired: false), feedback: $0.bytes) }
        try worker.run("all dead") { try server.status().counters[.dead] == 10 }
        worker.stop()
        let (all, newest) = ((0..<10).map(String.init), ["6", "7", "8", "9"])
        #expect(try server.list("{jobs}:gapless:dead") == (records == .deadLetters ? newest : all))
        #expect(try server.list("{jobs}:gapless:feedback") == (records == .feedback ? newest : all))
        let trimmed = worker.events.reduce(0) {
            if case .recordsTrimmed(records, let count) = $1 { $0 + count } else { $0 }
        }
        #expect(trimmed == 6)
        #expect(try server.status().counters[.trimmed] == 6)
    }

    @Test func `split and released jobs return to the head in order, or to the tail`() throws {
        try server.push(["a", "[12]", "c", "d", "e"])
        let worker = Worker(server.settings())
        worker.claim(4)
        let jobs = worker.jobs
        worker.settle(jobs[2], .release(toTail: false))
        worker.settle(jobs[1], .split(into: JobParts(prefix: bytes("b"), ranges: [1..<2, 2..<3], suffix: bytes("!"))))
        worker.settle(jobs[3], .release(toTail: true))
        worker.settle(jobs[0], .release(toTail: false))
        worker.stop()
        #expect(try server.list("jobs") == ["a", "b1!", "b2!", "c", "e", "d"])
        #expect(try server.status().unexplained == 0)
    }

    @Test func `parts that are not ranges of the job are given whole`() throws {
        try server.push(["a", "b", "c"])
        let worker = Worker(server.settings())
        worker.claim(2)
        let jobs = worker.jobs
        worker.settle(jobs[1], .split(into: JobParts(texts: [bytes("x"), bytes("y")])))
        worker.settle(jobs[0], .release(toTail: false))
        worker.stop()
        #expect(try server.list("jobs") == ["a", "x", "y", "c"])
        #expect(try server.status().unexplained == 0)
    }

    @Test func `a replacement goes to the head in the order of the claims, or to the tail`() throws {
        try server.push(["a", "b", "c", "d", "e"])
        let worker = Worker(server.settings())
        worker.claim(4)
        let jobs = worker.jobs
        worker.settle(jobs[2], .replace(with: bytes("c2"), toTail: true))
        worker.settle(jobs[1], .replace(with: bytes("b2"), toTail: false))
        worker.settle(jobs[3], .release(toTail: false))
        worker.settle(jobs[0], .release(toTail: false))
        worker.stop()
        #expect(try server.list("jobs") == ["a", "b2", "d", "e", "c2"])
        let status = try server.status()
        #expect(status.counters[.released] == 4)
        #expect(status.unexplained == 0)
    }

    @Test func `a stop returns the held jobs to the head in the order of their claims`() throws {
        let jobs = (0..<1500).map(String.init)
        try server.push(jobs)
        let worker = Worker(server.settings())
        worker.run("a thousand jobs") { worker.jobs.count == 1000 }
        worker.stop()
        #expect(try server.list("jobs") == jobs)
        let status = try server.status()
        #expect(status.workers.isEmpty)
        #expect(status.counters[.released] == 1000)
        #expect(status.unexplained == 0)
    }

    @Test func `many releases at once keep their order`() throws {
        let jobs = (0..<900).map(String.init)
        try server.push(jobs)
        let worker = Worker(server.settings())
        worker.run("all jobs") { worker.jobs.count == 900 }
        worker.places = 0
        for job in worker.jobs { worker.queue.settle(Settlement(id: job.id, effect: .release(toTail: false))) }
        worker.stop()
        #expect(try server.list("jobs") == jobs)
    }

    @Test func `no more is claimed than there are places`() throws {
        try server.push((0..<100).map(String.init))
        let worker = Worker(server.settings())
        worker.places = 7
        worker.run("seven") { worker.jobs.count == 7 }
        for _ in 0..<20 { worker.step() }
        #expect(worker.jobs.count == 7)
        #expect(try server.status().backlog == 93)
        worker.stop()
    }

    @Test func `huge jobs arrive in bounded batches`() throws {
        let huge = String(repeating: "x", count: 1 << 20)
        try server.push((0..<12).map { "\($0)" + huge })
        let worker = Worker(server.settings())
        worker.run("all") { worker.jobs.count == 12 }
        for case .claimed(let jobs) in worker.events { #expect(jobs.count <= 4) }
        #expect(worker.texts.map { $0.prefix { $0 != "x" } } == (0..<12).map { Substring("\($0)") })
        worker.stop()
        #expect(try server.status().backlog == 12)
    }

    @Test func `at most once takes from the list itself, and keeps the accounting`() throws {
        try server.push((0..<600).map(String.init))
        var settings = server.settings()
        settings.mode = .atMostOnce
        let worker = Worker(settings)
        worker.onJob = { job in
            switch (Int(String(decoding: job.bytes, as: UTF8.self)) ?? 0) % 3 {
            case 0: Settlement(id: job.id, effect: .ack)
            case 1: Settlement(id: job.id, effect: .deadLetter(record: job.bytes, isExpired: false))
            default: nil
            }
        }
        try worker.run("two thirds are settled") {
            let counters = try server.status().counters
            return counters[.sent] == 200 && counters[.dead] == 200
        }
        #expect(try server.status().inFlight == 0)
        #expect(worker.jobs.count == 200)
        let left = worker.texts
        worker.stop()
        #expect(try server.list("jobs") == left)
        #expect(try server.status().unexplained == 0)
        #expect(try server.status().counters[.claimed] == 600)
    }

    @Test func `at most once is woken by BLPOP`() throws {
        var settings = server.settings()
        settings.mode = .atMostOnce
        let worker = Worker(settings)
        worker.run("connected") { worker.connects == 1 }
        for _ in 0..<20 { worker.step() }
        try server.push(["a", "b"])
        worker.run("both") { worker.jobs.count == 2 }
        #expect(worker.texts == ["a", "b"])
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 2)
    }

    @Test func `the count of responses that a rollback loses is never too low, and little too high`() {
        var holdings = Holdings(keepsJobs: true)
        for number in 1...UInt64(20_000) {
            holdings.acknowledge(ClaimID(number), now: .now)
            holdings.seal(includingHeads: true, includingAsideHeads: true)
            holdings.confirm(number)
            #expect(holdings.isSettled && holdings.confirmed == number)
        }
        for stored in [0, 1, 100, 15_000, 19_000, 19_999, 20_000] {
            var copy = holdings
            let (exact, counted) = (20_000 - stored, copy.forgotten(after: UInt64(stored)))
            #expect(counted >= exact && counted <= exact + exact / 4, "\(stored): \(counted)")
        }
    }
}
