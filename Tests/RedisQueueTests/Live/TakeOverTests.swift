import Glibc
import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("When a worker dies")
struct TakeOverTests {
    let server: RedisServer
    let keys = Keys(list: "jobs")

    init() throws { server = try RedisServer() }

    private func settings(lease: Duration = .seconds(1)) -> QueueSettings {
        var settings = server.settings()
        settings.lease = lease
        return settings
    }

    /// A worker of another place, of which only the counter is known.
    private func stranger(_ name: String) -> WorkerName { WorkerName(text: name, host: "elsewhere", pid: 1) }

    /// A worker of this place whose process is gone: Linux assigns no PID this high.
    private var ghost: WorkerName {
        let own = WorkerName.make(instance: 1).text.split(separator: "-")
        return WorkerName(text: "\(own[0])-4194305-1-1", host: "here", pid: 4_194_305)
    }

    @Test func `its jobs are taken over in order after a lease of silence, and not before`() throws {
        try server.push(["a", "b", "c"])
        let silent = Worker(settings(), worker: stranger("silent"))
        silent.run("three jobs") { silent.jobs.count == 3 }
        let heir = Worker(settings())
        heir.run("connected") { heir.connects == 1 }
        let start = Instant.now
        heir.run("the jobs") { heir.jobs.count == 3 }
        #expect(Instant.now - start > .milliseconds(900))
        #expect(heir.texts == ["a", "b", "c"])
        #expect(heir.events.contains(.recovered(worker: "silent", jobs: 3)))
        #expect(try server.status().counters[.recovered] == 3)
        heir.acknowledgeAll()
        heir.stop()
        #expect(try server.status().unexplained == 0)
        #expect(try server.ask("EXISTS", keys.chunks("silent"), keys.worker("silent"), keys.holders) == .integer(0))
    }

    @Test func `its own lease applies if it is longer than that of the others`() throws {
        try server.push(["a"])
        let silent = Worker(settings(lease: .seconds(3)), worker: stranger("silent"))
        silent.run("the job") { silent.jobs.count == 1 }
        let heir = Worker(settings(lease: .seconds(2)))
        heir.run("connected") { heir.connects == 1 }
        let start = Instant.now
        heir.run("the job") { heir.jobs.count == 1 }
        #expect(Instant.now - start > .milliseconds(2900))
        heir.acknowledgeAll()
        heir.stop()
        #expect(try server.status().unexplained == 0)
    }

    /// Behind a proxy, the connections of a worker survive a failover to a replica that lacks the last writes.
    @Test func `an idle worker finds the jobs of a settlement that Redis has lost`() throws {
        try server.push(["a"])
        let worker = Worker(settings())
        worker.run("the job") { worker.jobs.count == 1 }
        let claim = worker.jobs[0].id
        worker.acknowledgeAll()
        let name = try #require(try server.status().workers.first?.name)
        try worker.run("the settlement") { try server.ask("HGET", keys.worker(name), "settled").text == "1" }
        worker.forgetEvents()
        try server.ask("RPUSH", keys.chunk(name, claim.chunk), "a")
        try server.ask("HSET", keys.chunks(name), "\(claim.chunk)", "0:1")
        try server.ask("HSET", keys.worker(name), "settled", "0")
        worker.run("the job again") { worker.jobs.count == 1 }
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.maybeDuplicate] == 1)
    }

    @Test func `a worker that beats keeps its jobs`() throws {
        try server.push(["a"])
        let alive = Worker(settings(lease: .milliseconds(600)), worker: stranger("alive"))
        alive.run("the job") { alive.jobs.count == 1 }
        let other = Worker(settings(lease: .milliseconds(600)))
        func beats() throws -> Int64 { try server.ask("ZSCORE", keys.workers, "alive").text.flatMap { Int64($0) } ?? 0 }
        other.run("connected") { other.connects == 1 }
        let first = try beats()
        // Five beats are a lease.
        try alive.run("fifteen beats") {
            other.step(atMost: .milliseconds(1))
            return try beats() >= first + 15
        }
        #expect(other.jobs.isEmpty)
        alive.acknowledgeAll()
        alive.stop()
        other.stop()
        #expect(try server.status().counters[.sent] == 1)
        #expect(try server.status().counters[.recovered] == 0)
    }

    @Test func `a former process of this machine is recognized as dead at once`() throws {
        try server.push(["a", "b"])
        let former = Worker(settings(lease: .seconds(60)), worker: ghost)
        former.run("two jobs") { former.jobs.count == 2 }
        let next = Worker(settings(lease: .seconds(60)))
        next.run("the jobs", within: .seconds(50)) { next.jobs.count == 2 }
        #expect(next.texts == ["a", "b"])
        next.stop()
        #expect(try server.status().unexplained == 0)
    }

    @Test(arguments: [[], ["a"]])
    func `it is reaped also by a worker that stops before it has served`(held: [String]) throws {
        if !held.isEmpty { try server.push(held) }
        let former = Worker(settings(lease: .seconds(60)), worker: ghost)
        former.run("connected, and its jobs") { former.connects == 1 && former.texts == held }
        let next = Worker(settings(lease: .seconds(60)))
        next.places = 0
        try next.run("registered") { try server.status().workers.contains { $0.name == next.queue.worker } }
        next.stop()
        #expect(try server.status().workers.isEmpty)
        #expect(try server.list(keys.recovered[0]) == held)
        #expect(try server.ask("EXISTS", keys.worker(ghost.text), keys.chunks(ghost.text), keys.holders) == .integer(0))
    }

    @Test func `a suspect that goes to a stopping worker is dead-lettered and not given back`() throws {
        try server.ask("RPUSH", keys.recovered[2], "poison")
        let former = Worker(settings(), worker: ghost)
        former.run("the job") { former.jobs.count == 1 }
        let next = Worker(settings())
        try next.run("registered") { try server.status().workers.contains { $0.name == next.queue.worker } }
        next.queue.stop()
        next.run("stopped") {
            for job in next.suspects { next.settle(job, .deadLetter(record: bytes("suspect"), isExpired: false)) }
            next.forgetSuspects()
            return next.hasStopped
        }
        #expect(try server.list(keys.dead) == ["suspect"])
        #expect(try server.status().backlog == 0)
        #expect(try server.status().unexplained == 0)
    }

    @Test func `recovered jobs come before waiting jobs`() throws {
        try server.push(["old"])
        let former = Worker(settings(), worker: ghost)
        former.run("the job") { former.jobs.count == 1 }
        try server.push(["new"])
        let next = Worker(settings())
        next.run("both") { next.jobs.count == 2 }
        #expect(next.texts == ["old", "new"])
        next.stop()
    }

    @Test func `a job that crashes its workers is pushed alone, then is a suspect, and the other jobs are sent`() throws {
        try server.push((0..<40).map { $0 == 17 ? "poison" : String($0) })
        var suspects: [ClaimedJob] = []
        var crashes = 0
        var sent: Set<String> = []
        while suspects.isEmpty && crashes < 20 {
            let mortal = Worker(settings(), worker: ghostNumber(crashes))
            mortal.run("poisoned or done") {
                suspects += mortal.suspects
                if mortal.texts.contains("poison") || !suspects.isEmpty { return true }
                for job in mortal.jobs { sent.insert(String(decoding: job.bytes, as: UTF8.self)) }
                mortal.acknowledgeAll()
                return false
            }
            if !suspects.isEmpty {
                for job in mortal.suspects { mortal.settle(job, .deadLetter(record: bytes("suspect"), isExpired: false)) }
                try mortal.run("all settled") {
                    for job in mortal.jobs { sent.insert(String(decoding: job.bytes, as: UTF8.self)) }
                    mortal.acknowledgeAll()
                    let status = try server.status()
                    return status.backlog + status.recovered + status.inFlight == 0
                }
                mortal.stop()
            }
            crashes += 1  // Dropped without a stop, as after kill -9.
        }
        #expect(suspects.map { String(decoding: $0.bytes, as: UTF8.self) } == ["poison"])
        #expect(crashes == 5)  // Four crashes, the last alone, and the worker that dead-lettered it.
        #expect(sent.count == 39)
        #expect(try server.list(keys.dead) == ["suspect"])
        let status = try server.status()
        #expect(status.counters[.dead] == 1)
        #expect(status.unexplained == 0)
    }

    @Test func `jobs that were in flight at three crashes by chance are pushed alone, and none is a suspect`() throws {
        let count = 60
        try server.push((0..<count).map(String.init))
        // At most 32 jobs that were in two crashes are in flight at a time; these are in the third crash.
        for (crash, held) in [count, count, 32].enumerated() {
            let mortal = Worker(settings(), worker: ghostNumber(crash))
            mortal.run("\(held) jobs") { mortal.jobs.count == held }
            for _ in 0..<5 { mortal.step() }
            #expect(mortal.jobs.count == held)
        }
        let heir = Worker(settings())
        var order: [Int] = []
        try heir.run("all sent", within: .seconds(60)) {
            let status = try server.status()
            let held = heir.jobs.count
            if status.recovered + status.inFlight > 0 && held == 0 { return false }
            // Jobs that were in three crashes come last, one by one.
            if order.count >= count - 32 { #expect(held <= 1) }
            order += heir.texts.compactMap { Int($0) }
            heir.acknowledgeAll()
            return order.count == count && !heir.queueHasWork
        }
        #expect(heir.suspects.isEmpty)
        #expect(Array(order.suffix(32)) == Array(0..<32))
        heir.stop()
        let status = try server.status()
        #expect(status.counters[.sent] == Int64(count))
        #expect(status.dead == 0)
        #expect(status.unexplained == 0)
    }

    @Test func `a release resets the crashes of a job`() throws {
        try server.ask("RPUSH", keys.recovered[2], "given back")
        let first = Worker(settings(), worker: ghostNumber(1))
        first.run("the job") { first.jobs.count == 1 }
        first.stop()
        #expect(try server.list("jobs") == ["given back"])
        let mortal = Worker(settings(), worker: ghostNumber(2))
        mortal.run("the job again") { mortal.jobs.count == 1 }
        let next = Worker(settings())
        next.places = 0
        try next.run("one crash") { try server.list(keys.recovered[0]) == ["given back"] }
        next.stop()
    }

    private func ghostNumber(_ number: Int) -> WorkerName {
        let own = WorkerName.make(instance: 1).text.split(separator: "-")
        return WorkerName(text: "\(own[0])-4194305-\(number + 1)-1", host: "here", pid: 4_194_305)
    }

    @Test(arguments: [1, 3])
    func `settlements that a rollback of Redis undoes are counted also for workers that were taken over`(count: Int) throws {
        try server.push((0..<10 * count).map(String.init))
        let slow = (0..<count).map { Worker(settings(lease: .milliseconds(500)), worker: stranger("slow\($0)")) }
        for worker in slow {
            worker.claim(10)
            worker.settle(worker.jobs[0], .ack)
        }
        func sent(_ wanted: Int) throws {
            for worker in slow {
                try worker.run("\(wanted) sent") {
                    for other in slow { other.step(atMost: .milliseconds(1)) }
                    return try server.status().counters[.sent] == Int64(wanted)
                }
            }
        }
        try sent(count)
        try server.ask("SAVE")
        try server.ask("CONFIG", "SET", "save", "")
        for worker in slow { for job in worker.jobs.prefix(4) { worker.settle(job, .ack) } }
        try sent(5 * count)
        server.kill()
        try server.restart()
        let heir = Worker(settings(lease: .milliseconds(500)))
        heir.run("nine jobs of each") { heir.jobs.count == 9 * count }
        for worker in slow { worker.forgetEvents() }
        // The nine jobs that were taken over, and the four sent ones, which no daemon can recognize among the nine.
        try heir.run("back, and counted") {
            for worker in slow { worker.step() }
            return try slow.allSatisfy { $0.connects == 1 } && server.status().counters[.maybeDuplicate] == Int64(13 * count)
        }
        heir.acknowledgeAll()
        heir.stop()
        for worker in slow { worker.stop() }
        #expect(try server.status().unexplained == 0)
    }

    @Test func `a frozen worker is fenced, drops the jobs of others, and continues`() throws {
        try server.push(["a", "b", "c"])
        let frozen = Worker(settings(lease: .milliseconds(500)), worker: stranger("frozen"))
        frozen.run("three jobs") { frozen.jobs.count == 3 }
        let heir = Worker(settings(lease: .milliseconds(500)))
        heir.run("the jobs") { heir.jobs.count == 3 }
        heir.places = 3
        // It continues with a response.
        frozen.places = 0
        let answered = frozen.jobs[0]
        frozen.settle(answered, .ack)
        frozen.forgetEvents()
        try frozen.run("fenced and back") {
            heir.step()
            // Three when they were taken over, because they may have been sent, and the one with a response.
            return try frozen.connects == 1 && server.status().counters[.maybeDuplicate] == 4
        }
        #expect(frozen.isInDoubt)
        #expect(frozen.disowned.count == 2)
        #expect(frozen.jobs.isEmpty)
        #expect(try server.status().counters[.fenced] == 1)
        heir.places = 0
        // Its wait began before: it has no place for the jobs that the wait still brings.
        heir.onJob = { Settlement(id: $0.id, effect: .release(toTail: false)) }
        heir.acknowledgeAll()
        try heir.run("sent") {
            frozen.step()
            return try server.status().counters[.sent] == 3
        }
        try server.push(["d"])
        frozen.places = 10
        frozen.run("a new job") {
            heir.step()
            return frozen.texts == ["d"]
        }
        frozen.acknowledgeAll()
        frozen.stop()
        heir.stop()
        #expect(try server.status().unexplained == 0)
    }

    @Test func `a Redis that stood still makes no worker look dead`() throws {
        try server.push(["a"])
        var patient = settings(lease: .milliseconds(600))
        patient.timeout = .milliseconds(400)
        let one = Worker(patient, worker: stranger("one"))
        let two = Worker(patient, worker: stranger("two"))
        one.run("the job") { one.jobs.count == 1 }
        two.run("connected") { two.connects == 1 }
        server.process.kill(SIGSTOP)  // SIGSTOP
        one.run("both have lost it") {
            two.step()
            return one.isInDoubt && one.isDisconnected && two.isDisconnected
        }
        server.process.kill(SIGCONT)  // SIGCONT
        one.forgetEvents()
        one.run("connected again") {
            two.step()
            return one.connects > 0
        }
        for _ in 0..<100 {
            one.step()
            two.step()
        }
        #expect(two.jobs.isEmpty)
        #expect(one.disowned.isEmpty)
        one.acknowledgeAll()
        one.stop()
        two.stop()
        let status = try server.status()
        #expect(status.counters[.sent] == 1)
        #expect(status.counters[.fenced] == 0)
        #expect(status.counters[.recovered] == 0)
    }
}
