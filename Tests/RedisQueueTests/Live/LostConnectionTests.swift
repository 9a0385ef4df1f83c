import Harness
import Platform
import Testing

@testable import RedisQueue

@Suite("When the connection to Redis breaks")
struct LostConnectionTests {
    let server: RedisServer
    let proxy: FaultProxy
    let seed = UInt64.random(in: 0...999_999)

    init() throws {
        server = try RedisServer()
        proxy = try FaultProxy(toUnixSocket: server.socketPath, seed: seed)
    }

    private var settings: QueueSettings {
        QueueSettings(list: "jobs", server: .tcp(host: "127.0.0.1", port: proxy.port))
    }

    @Test(.timeLimit(.minutes(30)))
    func `lost replies lose no job and double none`() throws {
        print("seed \(seed)")
        let count = 4000
        try server.push((0..<count).map(String.init))
        let worker = Worker(settings)
        worker.places = 80
        var random = SeededGenerator(seed: seed)
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
        proxy.tear(replies: 0.06, requests: 0.04)
        try worker.run("all settled, seed \(seed)", within: .seconds(120)) {
            let status = try server.status()
            return status.backlog + status.delayed + status.inFlight + status.recovered == 0 && !worker.queueHasWork
        }
        proxy.behaviour = .init()
        worker.stop()
        #expect(proxy.cuts > 0)
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

    @Test func `connections that are cut every few milliseconds stop nothing`() throws {
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
            if turns.isMultiple(of: 10) { proxy.cutAll() }
            return try turns.isMultiple(of: 20) && server.status().counters[.sent] == 5000
        }
        worker.stop()
        #expect(seen == 5000)
        #expect(try server.status().unexplained == 0)
    }

    @Test func `a silent connection is noticed, and puts the lease in doubt`() throws {
        try server.push(["job"])
        var settings = settings
        settings.timeout = .milliseconds(300)
        settings.lease = .seconds(1)
        let worker = Worker(settings)
        worker.run("the job") { !worker.jobs.isEmpty }
        proxy.behaviour = .halfOpen
        worker.run("doubt") { worker.isInDoubt }
        worker.run("disconnected") { worker.isDisconnected }
        worker.forgetEvents()
        proxy.behaviour = .init()
        proxy.cutAll()
        worker.run("connected again") { worker.connects > 0 }
        #expect(worker.disowned.isEmpty)
        #expect(worker.jobs.count == 1)
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 1)
        #expect(try server.status().counters[.maybeDuplicate] == 0)
    }

    @Test func `an idle worker notices a silent connection`() throws {
        let worker = Worker(settings)
        worker.run("connected") { worker.connects == 1 }
        worker.forgetEvents()
        proxy.behaviour = .halfOpen
        worker.run("disconnected") { worker.events.contains(.disconnected("Redis: no response in time")) }
        proxy.behaviour = .init()
        proxy.cutAll()
        worker.run("connected again") { worker.connects > 0 }
        worker.stop()
    }

    @Test func `jobs are found that were claimed on the dead one of the two connections`() throws {
        // The wait is sent, and its reply is lost: a router does so with a connection on which nothing has passed for long.
        proxy.behaviour.swallowsRepliesTo = "BLMOVE"
        let worker = Worker(settings)
        try worker.run("waiting") { try server.ask("CLIENT", "LIST").text?.contains("cmd=blmove") == true }
        try server.push(["job"])
        worker.run("the job") { !worker.jobs.isEmpty }
        proxy.behaviour = .init()
        proxy.cutAll()
        worker.acknowledgeAll()
        worker.stop()
        #expect(try server.status().counters[.sent] == 1)
    }

    @Test(.timeLimit(.minutes(30)))
    func `workers that die one after the other on a bad connection lose no job`() throws {
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let count = 3000
        try server.push((0..<count).map(String.init))
        let place = WorkerName.make(instance: 1).text.split(separator: "-")[0]
        var pushed: [String: Int] = [:]
        var heldAtDeath = 0
        proxy.tear(replies: 0.02, requests: 0.01)
        for life in 1...12 {
            // Linux assigns no PID this high: its successor considers it dead at once.
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
                // A worker that died without a job is removed later.
                return life == 12 && status.map { $0.backlog + $0.recovered + $0.inFlight == 0 && $0.workers.count == 1 } == true
            }
            if life == 12 {
                proxy.behaviour = .init()
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
        // A worker whose connection broke during its stop stays registered. It holds nothing.
        #expect(status.workers.count <= 1)
    }
}

extension FaultProxy {
    func tear(replies: Double, requests: Double) {
        var behaviour = Behaviour()
        (behaviour.tearsReply, behaviour.tearsRequest) = (replies, requests)
        self.behaviour = behaviour
    }
}
