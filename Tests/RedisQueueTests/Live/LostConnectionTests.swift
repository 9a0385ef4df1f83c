import Clocks
import Testing

@testable import RedisQueue

@Suite("When the connection to Redis breaks")
struct LostConnectionTests {
    let server: RedisServer
    let proxy: CuttingProxy
    let seed = UInt64.random(in: 0...999_999)

    init() throws {
        server = try RedisServer()
        proxy = try CuttingProxy(to: server, seed: seed)
    }

    private var settings: QueueSettings {
        QueueSettings(list: "jobs", server: .unix(path: proxy.path))
    }

    @Test(.timeLimit(.minutes(30)))
    func `replies that are lost lose nothing and double nothing`() throws {
        print("seed \(seed)")
        let count = 4000
        try server.push((0..<count).map(String.init))
        let worker = Worker(settings)
        worker.places = 80
        var random = SplitMix(seed)
        var seen: [String: Int] = [:]
        worker.onJob = { job in
            let text = String(decoding: job.bytes, as: UTF8.self)
            seen[text, default: 0] += 1
            switch Int.random(in: 0..<10, using: &random) {
            case 0 where !text.hasSuffix("r"):
                return Settlement(
                    id: job.id, effect: .delay(job: bytes(text + "r"), .after(.milliseconds(30)), isRetry: true))
            case 1: return Settlement(id: job.id, effect: .deadLetter(record: job.bytes, isExpired: false), feedback: job.bytes)
            default: return Settlement(id: job.id, effect: .ack)
            }
        }
        proxy.set(.init(loseReply: 0.06, tearRequest: 0.04))
        try worker.run("all settled, seed \(seed)", within: .seconds(120)) {
            let status = try server.status()
            return status.backlog + status.delayed + status.inFlight + status.recovered == 0 && !worker.queueHasWork
        }
        proxy.set(.init())
        worker.stop()
        #expect(proxy.cuts > 2)
        let status = try server.status()
        let counters = status.counters
        #expect(Set(seen.keys.filter { !$0.hasSuffix("r") }).count == count)
        #expect(seen.values.allSatisfy { $0 == 1 }, "doubled: \(seen.filter { $0.value > 1 }.prefix(5)), seed \(seed)")
        #expect(counters[.sent, default: 0] + counters[.dead, default: 0] == Int64(count))
        #expect(counters[.maybeDuplicate] == 0)
        #expect(counters[.fenced] == 0)
        #expect(status.unexplained == 0)
        #expect(status.dead == status.feedback)
        #expect(Int64(status.dead) == counters[.dead])
    }

    @Test func `connections cut every few milliseconds stop nothing`() throws {
        try server.push((0..<5000).map(String.init))
        let worker = Worker(settings)
        var seen = 0
        worker.onJob = { job in
            seen += 1
            return Settlement(id: job.id, effect: .ack)
        }
        var turns = 0
        try worker.run("all acknowledged", within: .seconds(120)) {
            turns += 1
            if turns.isMultiple(of: 10) { proxy.cut() }
            return try turns.isMultiple(of: 20) && server.status().counters[.sent] == 5000
        }
        worker.stop()
        #expect(seen == 5000)
        #expect(try server.status().unexplained == 0)
    }

    @Test func `a cable that is cut in silence is noticed, and the lease is doubted in time`() throws {
        try server.push(["job"])
        var settings = settings
        settings.timeout = .milliseconds(300)
        settings.lease = .seconds(1)
        let worker = Worker(settings)
        worker.run("the job") { !worker.jobs.isEmpty }
        proxy.set(.init(swallows: true))
        let start = Instant.now
        worker.run("doubt") { worker.isInDoubt }
        #expect(Instant.now - start < .milliseconds(900))
        worker.run("disconnected") { worker.events.contains { if case .disconnected = $0 { true } else { false } } }
        worker.forgetEvents()
        proxy.set(.init())
        proxy.cut()
        worker.run("connected again") { worker.connects > 0 }
        #expect(worker.disowned.isEmpty)
        #expect(worker.jobs.count == 1)
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 1)
        #expect(try server.status().counters[.maybeDuplicate] == 0)
    }

    @Test func `it is noticed within three seconds also by a worker that has nothing to do`() throws {
        let worker = Worker(settings)
        worker.run("connected") { worker.connects == 1 }
        for turn in 0..<3 {
            let silence = Duration.milliseconds(150 * turn)
            let start = Instant.now
            while Instant.now - start < silence { worker.step() }
            worker.forgetEvents()
            proxy.set(.init(swallows: true))
            let cut = Instant.now
            worker.run("disconnected") { worker.events.contains(.disconnected("Redis: no answer in time")) }
            // A turn of the worker and what a busy machine adds.
            #expect(Instant.now - cut < .milliseconds(3300))
            proxy.set(.init())
            proxy.cut()
            worker.run("connected again") { worker.connects > 0 }
        }
        worker.stop()
    }

    @Test func `an idle worker asks little of Redis`() throws {
        let worker = Worker(settings)
        worker.run("connected") { worker.connects == 1 }
        func commands() throws -> Int {
            let info = try server.ask("INFO", "stats").text ?? ""
            let line = info.split(separator: "\r\n").first { $0.hasPrefix("total_reads_processed:") }
            return line?.split(separator: ":").last.flatMap { Int($0) } ?? 0
        }
        let (before, start) = (try commands(), Instant.now)
        while Instant.now - start < .seconds(4) { worker.step(atMost: .seconds(1)) }
        let (after, seconds) = (try commands(), (Instant.now - start) / .seconds(1))
        #expect(after > before + 4)
        // Each command is one thing to read; two of them are our own.
        #expect(Double(after - before - 2) / seconds < 5)
        worker.stop()
    }

    @Test func `jobs that only the dead one of the two connections would have told of are found`() throws {
        let worker = Worker(settings)
        worker.run("connected") { worker.connects == 1 }
        try worker.run("waiting") { try server.ask("CLIENT", "LIST").text?.contains("cmd=blmove") == true }
        // Redis forgets the one that waits without a word to it: what a router does to a connection on which nothing passed.
        proxy.set(.init(swallowsWaiting: true))
        try server.push(["job"])
        let start = Instant.now
        worker.run("the job") { !worker.jobs.isEmpty }
        #expect(Instant.now - start < .seconds(3))
        proxy.set(.init())
        worker.acknowledgeAll()
        worker.stop()
    }

    @Test(.timeLimit(.minutes(30)))
    func `workers that die one after the other, on a bad line, lose nothing`() throws {
        print("seed \(seed)")
        var random = SplitMix(seed)
        let count = 3000
        try server.push((0..<count).map(String.init))
        let place = WorkerName.make(instance: 1).text.split(separator: "-")[0]
        var pushed: [String: Int] = [:]
        var heldAtDeath = 0
        proxy.set(.init(loseReply: 0.02, tearRequest: 0.01))
        for life in 1...12 {
            // The PID is above any that Linux gives out: dead to its successor as soon as it is dropped.
            let name = WorkerName(text: "\(place)-4194305-\(life)-1", host: "here", pid: 4_194_305)
            let mortal = Worker(settings, worker: life == 12 ? nil : name)
            mortal.places = 60
            mortal.onJob = { job in
                pushed[String(decoding: job.bytes, as: UTF8.self), default: 0] += 1
                return Int.random(in: 0..<4, using: &random) == 0 ? nil : Settlement(id: job.id, effect: .ack)
            }
            let lifetime = life == 12 ? Int.max : Int.random(in: 5..<120, using: &random)
            var turns = 0
            try mortal.run("done, or dead, seed \(seed)", within: .seconds(120)) {
                turns += 1
                if turns.isMultiple(of: 3) || mortal.jobs.count > 30 { mortal.acknowledgeAll() }
                for job in mortal.suspects { mortal.settle(job, .deadLetter(record: job.bytes, isExpired: false)) }
                mortal.forgetSuspects()
                if turns > lifetime { return true }
                let status = try turns.isMultiple(of: 10) ? server.status() : nil
                // One that died without a job is taken away as well, but later.
                return life == 12 && status.map { $0.backlog + $0.recovered + $0.inFlight == 0 && $0.workers.count == 1 } == true
            }
            if life == 12 {
                proxy.set(.init())
                mortal.stop()
            } else {
                heldAtDeath += try server.status().inFlight
            }
        }
        let status = try server.status()
        let counters = status.counters
        #expect(counters[.sent, default: 0] + counters[.dead, default: 0] == Int64(count), "seed \(seed)")
        #expect(pushed.count == count)
        #expect(pushed.values.reduce(0, +) - count <= heldAtDeath)
        #expect(status.unexplained == 0)
        #expect(status.inFlight == 0)
        // One whose line broke as it was told to stop says no goodbye. It holds nothing.
        #expect(status.workers.count <= 1)
    }
}
