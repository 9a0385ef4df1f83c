import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("Shutdown", .blocking)
struct DaemonDrainTests {
    @Test(arguments: [SIGTERM, SIGINT])
    func `waits for the requests in flight and releases the rest in order`(signal: CInt) throws {
        let (stage, daemon) = try givenOpen(["apns_max_concurrent_streams": "20"])
        stage.simulator.behave { $0.script.latency = .milliseconds(50)...(.milliseconds(60)) }
        let jobs = (0..<2000).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(stage.accepts(200))
        daemon.signal(signal)
        #expect(daemon.exitStatus() == 0)
        let status = try stage.status()
        let accepted = stage.simulator.ledger.acceptedCounts
        #expect(status.inFlight == 0)
        #expect(status.workers.isEmpty)
        #expect(status.counters[.sent] == Int64(accepted.count))
        #expect(status.counters[.maybeDuplicate, default: 0] == 0)
        let unsent = jobs.enumerated().filter { accepted[deviceToken($0.offset)] == nil }.map(\.element)
        #expect(unsent.count + accepted.count == 2001)
        #expect(try stage.backlog() == unsent)
        #expect(try stage.command("KEYS", "*chunks*").items?.isEmpty == true)
        #expect(try stage.command("KEYS", "*worker:*").items?.isEmpty == true)
        #expect(daemon.standardOutput.contains("Draining: "))
    }

    /// Such handlers free what OpenSSL needs in threads that are left.
    @Test func `no handler of exit runs while threads may run`() throws {
        let trap = try ExitTrap()
        let stage = try Stage()
        let daemon = try stage.start(under: trap.wrapper)
        try stage.open(daemon)
        #expect(daemon.stop()?.status == 0, "\(daemon.standardError)")
        #expect(try Call(["--version"], under: trap.wrapper).status == 0)
        #expect(try Call(["--unknown"], under: trap.wrapper).status == 64)
    }

    /// A daemon with fifty jobs in flight, to which APNs does not respond.
    private func givenSilent(_ changes: [String: String?]) throws -> (stage: Stage, daemon: DaemonProcess, jobs: [String]) {
        let (stage, daemon) = try givenOpen(changes)
        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        let jobs = (0..<50).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        #expect(waitUntil { stage.simulator.totals.requests == 51 })
        return (stage, daemon, jobs)
    }

    @Test func `exits at drain_timeout when APNs is silent, and all jobs are back in the list`() throws {
        let (stage, daemon, jobs) = try givenSilent(["drain_timeout": "0.5"])
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.backlog() == jobs)
        #expect(try stage.status().inFlight == 0)
        #expect(try stage.counter(.released) == 50)
        #expect(try stage.counter(.maybeDuplicate) == 50)
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.resent) == 0, "released, not resent")
    }

    @Test func `exits at once at the second signal, and the next daemon takes over the jobs in flight`() throws {
        let (stage, daemon, _) = try givenSilent(["drain_timeout": "60"])
        daemon.signal(SIGTERM)
        #expect(daemon.says("Draining: "))
        daemon.signal(SIGINT)
        // drain_timeout is a minute.
        #expect(daemon.exitStatus() == 0)
        stage.simulator.behave { $0.script.failures = [] }
        try stage.start()
        #expect(try stage.settles(51))
    }

    @Test func `with at_most_once all jobs go back to the list at the second signal`() throws {
        let (stage, daemon, jobs) = try givenSilent(["drain_timeout": "60", "redis_delivery": "\"at_most_once\""])
        daemon.signal(SIGTERM)
        #expect(daemon.says("Draining: "))
        daemon.signal(SIGTERM)
        daemon.signal(SIGINT)
        #expect(daemon.exitStatus() == 0)
        #expect(daemon.complaints.contains("[Gapless W] STAMP Exiting at once: returning 50 jobs in flight to the list."))
        #expect(try Set(stage.backlog()) == Set(jobs))
        #expect(try stage.counter(.maybeDuplicate) == 50)
    }

    @Test func `releases suspect and held jobs without counting maybe_duplicate`() throws {
        let stage = try Stage()
        for (reason, count) in [("BadDeviceToken", 5), ("TopicDisallowed", 10)] {
            stage.simulator.behave { $0.script.failures = [.init(.status(400, reason), 1)] }
            let seen = stage.simulator.totals.requests
            let daemon = try stage.start()
            try stage.push((0..<5).map { pushJob(deviceToken($0)) })
            #expect(waitUntil { stage.simulator.totals.requests > seen + (reason == "BadDeviceToken" ? 4 : 0) })
            let warning = "APNs has rejected a job (400 BadDeviceToken) and has not accepted any yet. The job waits for the first"
            if reason == "BadDeviceToken" { #expect(daemon.says(warning)) }
            #expect(daemon.stop(atMost: .seconds(30))?.status == 0)
            #expect(try stage.status().backlog == count)
            #expect(try stage.status().inFlight == 0)
        }
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().dead == 0)
        #expect(try stage.status().feedback == 0)
    }

    @Test func `exits while APNs or Redis is unavailable`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.refusesConnections = true }
        try stage.push(pushJob("0a"))
        let first = try stage.start()
        #expect(first.says("No session to "))
        #expect(first.stop(atMost: .seconds(30))?.status == 0)
        #expect(try stage.backlog() == [pushJob("0a")])
        let second = try stage.start()
        #expect(second.says("Connected to Redis"))
        stage.redis.kill()
        #expect(second.says("trying again"))
        #expect(second.stop(atMost: .seconds(30))?.status == 0)
    }
}

@Suite("gaplessd pause", .blocking)
struct DaemonPauseTests {
    private func call(_ call: String, _ arguments: String..., settings: String) throws {
        #expect(try Call([call, settings] + arguments).status == 0)
    }

    @Test func `stops a daemon under load and a restarted one; resume delivers every job once, in order`() throws {
        let stage = try Stage()
        let listens: [String: String?] = [
            "metrics_listen": "\"127.0.0.1:0\"", "max_rate": "200", "pool_size": "1", "apns_max_concurrent_streams": "1",
        ]
        let settings = try stage.write(listens)
        let daemon = try stage.startOpen(listens)
        try stage.push((0..<600).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(20))
        try call("pause", "--reason", "bad campaign", settings: settings)
        #expect(daemon.says("bad campaign"))
        #expect(try waitUntil { try stage.status().inFlight == 0 })
        let accepted = stage.simulator.totals.accepted
        let waiting = try stage.backlog()
        #expect(waiting == (accepted - 1..<600).map { pushJob(deviceToken($0)) })
        #expect(daemon.stop()?.status == 0)
        let second = try stage.start(listens)
        let port = try #require(second.metricsPort())
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port)?.body.contains("bad campaign") == true })
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port)?.body.hasPrefix("ready\n") == true })
        #expect(
            waitUntil { HTTPTalk.get("/metrics", port: port)?.body.contains("gapless_paused{queue=\"\(Stage.list)\"} 1") == true }
        )
        #expect(try stage.backlog() == waiting && stage.simulator.totals.accepted == accepted)
        try call("resume", settings: settings)
        #expect(stage.accepts(601))
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try waitUntil { try stage.status().inFlight == 0 })
        #expect(try stage.status().unexplained == 0)
    }
}
