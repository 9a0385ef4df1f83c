import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("Side lists")
struct SideListTests {
    let server: RedisServer
    let keys = Keys(list: "jobs")

    init() throws { server = try RedisServer() }

    /// A worker that holds these jobs and claims no more.
    private func worker(holding jobs: [String], _ settings: QueueSettings? = nil) throws -> Worker {
        try server.push(jobs)
        let worker = Worker(settings ?? server.settings())
        worker.run("the jobs") { worker.jobs.count == jobs.count }
        worker.places = 0
        return worker
    }

    private func setAside(_ jobs: [ClaimedJob], of app: String, by worker: Worker, toTail: Bool = true) throws {
        for job in jobs { worker.settle(job, .release(toTail: toTail), aside: app) }
        worker.run("set aside") { !worker.queueHasWork }
    }

    @Test func `jobs that are set aside wait in the list of their app, in order, and count as backlog`() throws {
        let worker = try worker(holding: ["a1", "b1", "a2", "a3", "c1"])
        let jobs = worker.jobs
        try setAside([jobs[3]], of: "a", by: worker)
        // Those that were taken before go in front, in the order of their claims.
        worker.settle(jobs[2], .replace(with: bytes("A2"), toTail: false), aside: "a")
        worker.settle(jobs[4], .release(toTail: true), aside: "")
        try setAside([jobs[0]], of: "a", by: worker, toTail: false)
        #expect(try server.list(keys.aside("a")) == ["a1", "A2", "a3"])
        #expect(try server.list(keys.aside("")) == ["c1"])
        #expect(worker.asides == ["", "a"])
        let status = try server.status()
        #expect(status.asides == ["a": 3, "": 1] && status.backlog == 4 && status.inFlight == 1)
        #expect(status.counters[.released] == 4 && status.unexplained == 0)
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.list("jobs") == ["a1", "A2", "a3", "c1"] || server.list("jobs") == ["c1", "a1", "A2", "a3"])
        #expect(try server.ask("EXISTS", keys.asides, keys.aside("a"), keys.aside("")) == .integer(0))
        #expect(try server.status().unexplained == 0)
    }

    @Test func `places of an app claim from its side list, and the last claim reports that it is empty`() throws {
        let worker = try worker(holding: (0..<600).map(String.init))
        try setAside(worker.jobs, of: "a", by: worker)
        worker.asidePlaces["a"] = 7
        worker.run("seven") { worker.jobs.count >= 7 }
        worker.asidePlaces["a"] = 0
        #expect(worker.texts == (0..<7).map(String.init) && worker.jobs.allSatisfy(\.wasClaimed))
        #expect(try server.status().asides == ["a": 593])
        worker.asidePlaces["a"] = 600
        worker.run("all") { worker.jobs.count == 600 }
        #expect(worker.texts == (0..<600).map(String.init))
        #expect(worker.asides == [])
        #expect(try server.status().asides == [:])
        worker.acknowledgeAll()
        worker.stop()
        let status = try server.status()
        #expect(status.counters[.claimed] == 1200 && status.counters[.released] == 600 && status.unexplained == 0)
    }

    @Test func `nothing is due after a claim has emptied the side list, although places are left`() {
        var sides = SideLists()
        sides.setAside("a")
        sides.offer(places: 10, app: "a", now: start)
        #expect(sides.next(now: start + .milliseconds(2))?.count == 10)
        sides.claimed(3, of: "a", isEmptied: true, unconfirmed: [], now: start + .milliseconds(3))
        #expect(sides.apps.isEmpty && sides.claimsAt == nil)
    }

    /// The commands that Redis has run, also within scripts.
    private func commands() throws -> Int {
        let lines = try server.ask("INFO", "commandstats").text?.split(whereSeparator: \.isNewline) ?? []
        return lines.reduce(0) { sum, line in
            // The tests ask by these.
            if ["_zscore", "_info", "_client", "_config"].contains(where: { line.hasPrefix("cmdstat" + $0) }) { return sum }
            return sum + (line.split(separator: "=").dropFirst().first.flatMap { Int($0.prefix { $0.isNumber }) } ?? 0)
        }
    }

    @Test func `jobs that return or are retried cost no command each`() throws {
        let worker = try worker(holding: (0..<600).map(String.init))
        let before = try commands()
        for (number, job) in worker.jobs.enumerated() {
            switch number % 3 {
            case 0: worker.settle(job, .delay(job: bytes("\(number)!"), .after(.seconds(100)), isRetry: true))
            case 1: worker.settle(job, .release(toTail: true), aside: "a")
            default: worker.settle(job, .release(toTail: false))
            }
        }
        worker.run("all are settled") { !worker.queueHasWork }
        let done = try commands() - before
        #expect(done < 300, "\(done) commands for 600 jobs")
        #expect(try server.list(keys.aside("a")) == stride(from: 1, to: 600, by: 3).map(String.init))
        #expect(try server.list("jobs") == stride(from: 2, to: 600, by: 3).map(String.init))
        let status = try server.status()
        #expect(status.delayed == 200 && status.counters[.retried] == 200 && status.counters[.released] == 400)
        #expect(status.unexplained == 0)
        worker.stop()
    }

    @Test func `an app without places costs only the beats, however many of its jobs wait`() throws {
        var settings = server.settings()
        settings.lease = .seconds(1)
        let worker = try worker(holding: (0..<900).map(String.init), settings)
        try setAside(worker.jobs, of: "a", by: worker)
        func beatCount() throws -> Int {
            try server.ask("ZSCORE", keys.workers, worker.queue.worker).text.flatMap { Int($0) } ?? 0
        }
        let (beats, before) = (try beatCount(), try commands())
        try worker.run("ten beats") { try beatCount() >= beats + 10 }
        let (all, done) = (try beatCount() - beats, try commands() - before)
        #expect(done <= 30 * all, "\(done) commands in \(all) beats")
        #expect(try server.status().asides == ["a": 900])
        worker.stop()
        #expect(try server.list("jobs") == (0..<900).map(String.init))
    }

    @Test func `other workers learn of a side list from the registration and from beats, and claim from it`() throws {
        var settings = server.settings()
        settings.lease = .seconds(1)
        let other = Worker(settings)
        other.places = 0
        other.run("connected") { other.connects == 1 }
        let worker = try worker(holding: ["1", "2", "3"], settings)
        try setAside(worker.jobs, of: "a", by: worker)
        other.run("a beat") { other.asides == ["a"] }
        let third = Worker(settings)
        third.places = 0
        third.run("registered") { third.connects == 1 }
        #expect(third.asides == ["a"])
        worker.stop()
        #expect(try server.status().asides == ["a": 3], "other workers are registered")
        other.asidePlaces["a"] = 10
        other.run("the jobs") { other.jobs.count == 3 }
        third.run("a beat") { third.asides == [] }
        other.acknowledgeAll()
        other.run("settled") { !other.queueHasWork }
        third.stop()
        other.stop()
        #expect(try server.ask("KEYS", "*").items?.compactMap(\.text) == ["{jobs}:gapless:stats"])
        #expect(try server.status().unexplained == 0)
    }

    @Test func `the last worker returns thousands of jobs to the head of the list in order`() throws {
        let jobs = (0..<2500).map(String.init)
        try server.push(jobs)
        let worker = Worker(server.settings())
        worker.places = 2500
        worker.onJob = { Settlement(id: $0.id, effect: .release(toTail: true), aside: "a") }
        try worker.run("all aside") { try server.status().asides == ["a": 2500] }
        try server.push(["behind"])
        worker.places = 0
        worker.stop()
        #expect(try server.list("jobs").suffix(2501) == jobs + ["behind"])
        #expect(try server.ask("EXISTS", keys.asides, keys.aside("a")) == .integer(0))
    }

    @Test func `the last two workers stop together, and the side lists return to the list`() throws {
        let worker = try worker(holding: ["1", "2", "3"])
        let other = Worker(server.settings())
        other.places = 0
        other.run("registered") { other.connects == 1 }
        try setAside(worker.jobs, of: "a", by: worker)
        other.run("a beat") { other.asides == ["a"] }
        worker.queue.stop()
        other.queue.stop()
        worker.run("both have stopped") {
            other.step()
            return worker.hasStopped && other.hasStopped
        }
        #expect(try server.list("jobs") == ["1", "2", "3"])
        #expect(try server.ask("KEYS", "*").items?.compactMap(\.text).sorted() == ["jobs", keys.stats])
        #expect(try server.status().unexplained == 0)
    }

    @Test func `a worker of a version without side lists gets their jobs back in the list, too`() throws {
        let worker = try worker(holding: ["1", "2", "3"])
        try setAside(worker.jobs, of: "a", by: worker)
        try server.ask("ZADD", keys.workers, "7", "old")
        try server.ask("HSET", keys.holders, "old", "1")
        worker.stop()
        #expect(try server.list("jobs") == ["1", "2", "3"])
    }

    @Test func `an audit knows side lists, and names one that no daemon would find`() throws {
        let worker = try worker(holding: ["1", "2"])
        try setAside(worker.jobs, of: "a", by: worker)
        var client = try RedisClient(settings: server.settings())
        #expect(try QueueAudit.read(&client, keys).foreignKeys == [])
        try server.ask("DEL", keys.asides)
        #expect(try QueueAudit.read(&client, keys).foreignKeys == [keys.aside("a")])
        worker.queue.stop()
    }

    @Test func `the side lists of thousands of apps are read`() throws {
        let fill = "for i = 1, 9000 do redis.call('HSET', KEYS[1], 'app' .. i, 1) end"
        try server.ask("EVAL", fill, "1", keys.asides)
        let worker = Worker(server.settings())
        worker.places = 0
        worker.run("connected") { worker.connects == 1 }
        #expect(worker.asides.count == 9000)
        #expect(try server.status().asides.count == 9000)
    }

    @Test func `a claim from a side list takes nothing that a script which failed has left behind`() throws {
        let redis = try RestrictedRedis()
        try redis.send(.register(.init(counter: 1, confirmed: 0, isExpected: false)))
        try redis.ask("RPUSH", redis.keys.nothing, "", "")
        try redis.ask("RPUSH", redis.keys.aside("a"), "job")
        let reply = try redis.send(.claim(.init(chunk: 1, count: 5, fromSecond: 0, source: .aside("a"))))
        #expect(reply.items?[1] == .integer(1) && reply.items?[2] == .integer(0))
        #expect(try redis.ask("LRANGE", redis.keys.chunk("w", 1), "0", "-1") == .array([.string(bytes("job"))]))
    }

    @Test func `the side list of an app that is gone returns to its list`() throws {
        let worker = try worker(holding: ["1", "2", "3"])
        try setAside(worker.jobs, of: "gone", by: worker)
        worker.places = 10
        worker.queue.restore(aside: "gone")
        worker.run("returned") { worker.texts == ["1", "2", "3"] && worker.asides == [] }
        #expect(try server.status().asides == [:])
        worker.stop()
    }

    @Test func `the parts of a job from a side list are claimed next from there`() throws {
        let worker = try worker(holding: ["[12]", "b"])
        try setAside(worker.jobs, of: "a", by: worker)
        worker.asidePlaces["a"] = 1
        worker.run("the first") { worker.jobs.count == 1 }
        worker.asidePlaces["a"] = 0
        let parts = JobParts(prefix: bytes("a"), ranges: [1..<2, 2..<3], suffix: bytes("!"))
        worker.settle(worker.jobs[0], .split(into: parts), aside: "a")
        worker.run("settled") { !worker.queueHasWork }
        #expect(try server.list(keys.aside("a")) == ["a1!", "a2!", "b"])
        worker.stop()
    }

    @Test func `with at_most_once jobs are set aside and claimed again, too`() throws {
        var settings = server.settings()
        settings.mode = .atMostOnce
        let worker = try worker(holding: ["1", "2", "[34]"], settings)
        worker.run("the jobs") { worker.jobs.count == 3 }
        try setAside(worker.jobs, of: "a", by: worker)
        #expect(try server.list(keys.aside("a")) == ["1", "2", "[34]"])
        worker.asidePlaces["a"] = 3
        worker.run("again") { worker.jobs.count == 3 }
        worker.asidePlaces["a"] = 0
        #expect(worker.texts == ["1", "2", "[34]"] && worker.asides == [])
        let parts = JobParts(prefix: [], ranges: [1..<2, 2..<3], suffix: bytes("!"))
        worker.settle(worker.jobs[2], .split(into: parts), aside: "a")
        worker.settle(worker.jobs[1], .release(toTail: false), aside: "a")
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.list("jobs") == ["2", "3!", "4!"])
    }

    @Test func `the jobs of a worker that died while it claimed from a side list are recovered`() throws {
        var settings = server.settings()
        settings.lease = .seconds(1)
        let dead = try worker(holding: ["1", "2", "3"], settings)
        try setAside(dead.jobs, of: "a", by: dead)
        dead.asidePlaces["a"] = 2
        dead.run("two") { dead.jobs.count == 2 }
        let heir = Worker(settings)
        heir.run("the two") { heir.jobs.count == 2 }
        #expect(heir.texts == ["1", "2"] && heir.jobs.allSatisfy(\.wasClaimed) && heir.asides == ["a"])
        heir.acknowledgeAll()
        heir.stop()
        #expect(try server.list("jobs") == ["3"])
        #expect(try server.status().unexplained == 0)
    }

    @Test(.timeLimit(.minutes(30)))
    func `lost replies lose no job that is set aside and double none`() throws {
        let seed = UInt64.random(in: 0...999_999)
        print("seed \(seed)")
        let proxy = try FaultProxy(toUnixSocket: server.socketPath, seed: seed)
        let count = 2000
        try server.push((0..<count).map(String.init))
        let worker = Worker(QueueSettings(list: "jobs", server: .tcp(host: "127.0.0.1", port: proxy.port)))
        worker.places = 100
        worker.asidePlaces = ["a": 60, "b": 40]
        var random = SeededGenerator(seed: seed)
        var seen: [String: Int] = [:]
        worker.onJob = { job in
            let text = String(decoding: job.bytes, as: UTF8.self)
            if Int.random(in: 0..<2, using: &random) == 0 {
                let app = (Int(text) ?? 0).isMultiple(of: 2) ? "a" : "b"
                return Settlement(id: job.id, effect: .release(toTail: Bool.random(using: &random)), aside: app)
            }
            seen[text, default: 0] += 1
            return Settlement(id: job.id, effect: .ack)
        }
        proxy.tear(replies: 0.06, requests: 0.04)
        try worker.run("all settled, seed \(seed)", within: .seconds(240)) {
            let status = try server.status()
            return status.backlog + status.inFlight + status.recovered == 0 && !worker.queueHasWork
        }
        proxy.behaviour = .init()
        worker.stop()
        #expect(proxy.cuts > 2)
        #expect(seen.count == count && seen.values.allSatisfy { $0 == 1 }, "seed \(seed)")
        let status = try server.status()
        #expect(status.counters[.sent] == Int64(count) && status.counters[.maybeDuplicate] == 0)
        #expect(status.unexplained == 0 && status.asides == [:])
    }
}

@Suite("The claims from side lists")
struct SideListClaimTests {
    /// A time in the past without a claim would keep the owner's thread awake.
    @Test func `a side list that a claim has emptied leaves no time of a claim behind`() throws {
        var lists = SideLists()
        let now = Instant.now
        lists.setAside("beta")
        lists.offer(places: 100, app: "beta", now: now)
        let next = lists.next(now: now)
        let claim = try #require(next)
        #expect(claim.app == "beta" && claim.count == 100)
        lists.claimed(30, of: "beta", isEmptied: true, unconfirmed: [], now: now)
        #expect(lists.claimsAt == nil && lists.apps.isEmpty)
    }
}
