import APNSSimulator
import Clocks
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("A daemon that is asked to stop", .blocking)
struct DaemonDrainTests {
    @Test(arguments: [SIGTERM, SIGINT])
    func `hears out what is on the wire and gives the rest back in its order`(signal: CInt) throws {
        let stage = try Stage()
        let daemon = try stage.start(["apns_max_concurrent_streams": "20"])
        try stage.open(daemon)
        stage.simulator.behave { $0.script.latency = .milliseconds(50)...(.milliseconds(60)) }
        let jobs = (0..<2000).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(stage.accepts(200))
        daemon.signal(signal)
        #expect(daemon.process.wait(atMost: .seconds(10))?.status == 0)
        let status = try stage.status()
        let accepted = stage.simulator.ledger.acceptedCounts
        #expect(status.inFlight == 0)
        #expect(status.workers.isEmpty)
        #expect(status.counters[.sent] == Int64(accepted.count))
        #expect(status.counters[.maybeDuplicate, default: 0] == 0)
        let unsent = jobs.enumerated().filter { accepted[deviceToken($0.offset)] == nil }.map(\.element)
        #expect(unsent.count + accepted.count == 2001)
        #expect(try stage.backlog() == unsent)
        #expect(try stage.command("KEYS", "*inflight*").items?.isEmpty == true)
        #expect(try stage.command("KEYS", "*worker:*").items?.isEmpty == true)
        #expect(daemon.standardOutput.contains("Draining: "))
    }

    @Test func `leaves at drain_timeout when APNs is silent, and everything is back in the list`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["drain_timeout": "0.5"])
        try stage.open(daemon)
        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        let jobs = (0..<50).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(waitUntil { stage.simulator.totals.requests == 51 })
        let start = Instant.now
        #expect(daemon.stop()?.status == 0)
        #expect((.milliseconds(450)...(.seconds(3))).contains(Instant.now - start))
        #expect(try stage.backlog() == jobs)
        #expect(try stage.status().inFlight == 0)
        #expect(try stage.counter(.released) == 50)
        #expect(try stage.counter(.maybeDuplicate) == 50)
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.resent) == 0, "given back, not sent again")
    }

    @Test func `leaves at once at the second signal, and the next one takes up what was in flight`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["drain_timeout": "60"])
        try stage.open(daemon)
        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        try stage.push((0..<50).map { pushJob(deviceToken($0)) })
        #expect(waitUntil { stage.simulator.totals.requests == 51 })
        daemon.signal(SIGTERM)
        #expect(daemon.says("Draining: "))
        let start = Instant.now
        daemon.signal(SIGINT)
        #expect(daemon.process.wait(atMost: .seconds(10))?.status == 0)
        #expect(Instant.now - start < .seconds(3))
        stage.simulator.behave { $0.script.failures = [] }
        let next = try stage.start()
        #expect(stage.accepts(51))
        #expect(try stage.drains())
        #expect(next.stop()?.status == 0)
    }

    @Test func `with at_most_once, of which Redis has nothing, all goes back at the second signal`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["drain_timeout": "60", "redis_delivery": "\"at_most_once\""])
        try stage.open(daemon)
        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        let jobs = (0..<50).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(waitUntil { stage.simulator.totals.requests == 51 })
        daemon.signal(SIGTERM)
        #expect(daemon.says("Draining: "))
        let start = Instant.now
        daemon.signal(SIGTERM)
        daemon.signal(SIGINT)
        #expect(daemon.process.wait(atMost: .seconds(10))?.status == 0)
        #expect(Instant.now - start < .seconds(3))
        #expect(daemon.complaints.contains("[Gapless W] STAMP Leaving at once: 50 jobs in flight go back to the list."))
        #expect(try Set(stage.backlog()) == Set(jobs))
        #expect(try stage.counter(.maybeDuplicate) == 50)
    }

    @Test func `a reload while it stops is ignored, and said`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["drain_timeout": "60"])
        try stage.open(daemon)
        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        try stage.push(pushJob("0a"))
        #expect(waitUntil { stage.simulator.totals.requests == 2 })
        let sessions = stage.simulator.totals.connections
        daemon.signal(SIGTERM)
        #expect(daemon.says("Draining: "))
        daemon.signal(SIGHUP)
        #expect(daemon.says("Reload ignored: gaplessd is stopping."))
        daemon.signal(SIGTERM)
        #expect(daemon.process.wait(atMost: .seconds(10))?.status == 0)
        #expect(daemon.says("Leaving at once: what is in flight (1 job) stays in Redis, and the next gaplessd takes it over."))
        #expect(stage.simulator.totals.connections == sessions)
    }

    @Test func `with an empty list and idle sessions it is gone in a moment`() throws {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        let start = Instant.now
        #expect(daemon.stop()?.status == 0)
        #expect(Instant.now - start < .seconds(2))
        #expect(try stage.status().workers.isEmpty)
        #expect(daemon.standardError.split(separator: "\n").allSatisfy { $0.contains("append-only") })
    }

    @Test func `gives back what waits for a first acceptance, and what is held, without a doubt about it`() throws {
        let stage = try Stage()
        for (reason, count) in [("BadDeviceToken", 5), ("TopicDisallowed", 10)] {
            stage.simulator.behave { $0.script.failures = [.init(.status(400, reason), 1)] }
            let seen = stage.simulator.totals.requests
            let daemon = try stage.start()
            try stage.push((0..<5).map { pushJob(deviceToken($0)) })
            #expect(waitUntil { stage.simulator.totals.requests > seen + (reason == "BadDeviceToken" ? 4 : 0) })
            let warning = "APNs has refused a job (400 BadDeviceToken) and accepted none yet: it waits for the first acceptance, "
            if reason == "BadDeviceToken" { #expect(daemon.says(warning)) }
            #expect(daemon.stop(atMost: .seconds(5))?.status == 0)
            #expect(try stage.status().backlog == count)
            #expect(try stage.status().inFlight == 0)
        }
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().dead == 0)
        #expect(try stage.status().feedback == 0)
    }

    @Test func `does so while APNs or Redis is away`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.refusesConnections = true }
        try stage.push(pushJob("0a"))
        let first = try stage.start()
        #expect(first.says("No session to "))
        #expect(first.stop(atMost: .seconds(5))?.status == 0)
        #expect(try stage.backlog() == [pushJob("0a")])
        let second = try stage.start()
        #expect(second.says("Connected to Redis"))
        stage.redis.kill()
        #expect(second.says("trying again"))
        #expect(second.stop(atMost: .seconds(15))?.status == 0)
    }
}
