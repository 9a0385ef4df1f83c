import APNSSimulator
import Clocks
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("A credential, a topic or an environment that is wrong burns no queue", .blocking)
struct DaemonHoldTests {
    @Test func `tokens of the wrong environment wait in the list until it is mended`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.script.failures = [.init(.usual(400), 1)] }
        let jobs = (0..<60).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        let daemon = try stage.start()
        #expect(daemon.says("APNs has refused every device token so far: wrong environment or topic? Its jobs stay in the queue"))
        #expect(try waitUntil { try stage.status().backlog == 60 && stage.status().inFlight == 0 })
        #expect(stage.simulator.totals.requests <= 20)
        #expect(try stage.status().dead == 0)
        #expect(try stage.status().feedback == 0)
        #expect(Set(try stage.backlog()) == Set(jobs))
        stage.simulator.behave { $0.script.failures = [] }
        #expect(stage.accepts(60))
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.count == 60)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `with a certificate and a thousand streams no more than 20 jobs are out before the first acceptance`() throws {
        let stage = try Stage(topics: ["com.example.beta"]) { $0.authentication = .certificate }
        stage.simulator.behave { $0.script.failures = [.init(.delay(.milliseconds(100), then: .usual(400)), 1)] }
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        var settings: [String: String?] = [
            "apns_cert_path": "\"credentials/client.pem\"", "apns_key_path": "\"credentials/client-key.pem\"",
        ]
        for key in ["apns_auth_key_path", "apns_auth_key_id", "apns_team_id", "apns_topic"] { settings[key] = .some(nil) }
        let daemon = try stage.start(settings)
        var most = 0
        #expect(
            try waitUntil {
                most = max(most, try stage.status().inFlight)
                return daemon.standardError.contains("wrong environment or topic?")
            })
        #expect(most == 20)
        #expect(try waitUntil { try stage.status().backlog == 100 })
        #expect(stage.simulator.totals.requests == 20)
        stage.simulator.behave { $0.script.failures = [] }
        daemon.signal(SIGHUP)
        #expect(stage.accepts(100, atMost: .seconds(4)))
        #expect(try stage.drains())
        #expect(try stage.status().dead == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a few bad tokens among the first jobs are told apart by the first acceptance`() throws {
        let stage = try Stage()
        for bad in 0..<15 { stage.simulator.plan(token: deviceToken(bad), answers: Array(repeating: .usual(400), count: 9)) }
        try stage.push((0..<40).map { pushJob(deviceToken($0)) })
        let daemon = try stage.start()
        #expect(stage.accepts(25))
        #expect(try stage.drains())
        #expect(Set(try stage.deadLetters().compactMap { $0.text("token") }) == Set((0..<15).map(deviceToken)))
        #expect(Set(try stage.feedback().map { $0.text("verdict") }) == ["suspect"])
        #expect(try stage.feedback().count == 15)
        #expect(stage.simulator.totals.requests == 40)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `one job that is refused for ever does not keep those behind it`() throws {
        let stage = try Stage()
        stage.simulator.plan(token: "bad00000", answers: Array(repeating: .reason(.forbidden), count: 99))
        try stage.push(pushJob("bad00000"))
        let daemon = try stage.start()
        #expect(daemon.says("APNs does not accept the credential (Forbidden)"))
        #expect(try waitUntil { try stage.status().backlog == 1 })
        try stage.push((0..<5).map { pushJob(deviceToken($0)) })
        // It is the first probe, after 5 s; the second, after 10 more, is another job.
        #expect(stage.accepts(5, atMost: .seconds(30)))
        #expect(try waitUntil { try stage.backlog() == [pushJob("bad00000")] })
        #expect(try stage.status().dead == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `429 for the whole credential is a counted retry of its job, and the others wait`() throws {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        stage.simulator.plan(token: "aa", answers: [.status(429, "Busy", retryAfter: 2)])
        try stage.push(pushJob("aa", #""identifier":1"#))
        #expect(daemon.says("(ID 1): 429 Busy. Retrying count (1)."))
        #expect(
            daemon.says(
                "APNs asks for fewer pushes (429 Busy): one at a time goes out until they are welcome again. Its jobs stay"))
        let before = stage.simulator.totals.requests
        try stage.push((0..<50).map { pushJob(deviceToken($0)) })
        #expect(try waitUntil { try stage.status().backlog == 50 })
        #expect(daemon.says("APNs answers as it should again: sending."))
        #expect(stage.accepts(52))
        #expect(stage.simulator.totals.requests == before + 51)
        #expect(try stage.drains())
        let entries = stage.simulator.ledger.entries
        let refused = try #require(entries.firstIndex { $0.token == "aa" })
        #expect(entries[refused + 1].time - entries[refused].time >= .milliseconds(1900))
        #expect(try stage.counter(.retried) == 1)
        #expect(try stage.status().dead == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test(arguments: [(403, "InvalidProviderToken"), (403, "BadCertificateEnvironment"), (429, "TooManyProviderTokenUpdates")])
    func `a refused credential costs a handful of requests and no job`(status: Int, reason: String) throws {
        let stage = try Stage()
        stage.simulator.behave { $0.script.failures = [.init(.status(status, reason), 1)] }
        let jobs = (0..<50).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        let daemon = try stage.start()
        #expect(daemon.says("Its jobs stay in the queue until APNs accepts one."))
        #expect(try waitUntil { try stage.status().backlog == 50 && stage.status().inFlight == 0 })
        #expect(stage.simulator.totals.requests <= 5)
        #expect(try Set(stage.backlog()) == Set(jobs))
        stage.simulator.behave { $0.script.failures = [] }
        #expect(stage.accepts(50))
        #expect(try stage.drains())
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0)
        #expect(daemon.says("APNs answers as it should again"))
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a credential that is revoked under load holds what was going out`() throws {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        stage.simulator.behave { $0.script.latency = .milliseconds(1)...(.milliseconds(4)) }
        try stage.push((0..<4000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(500))
        stage.simulator.behave { $0.script.failures = [.init(.status(403, "InvalidProviderToken"), 1)] }
        #expect(daemon.says("InvalidProviderToken"))
        #expect(try waitUntil { try stage.status().inFlight == 0 })
        let status = try stage.status()
        #expect(status.backlog + Int(status.counters[.sent] ?? 0) == 4001)
        #expect(status.backlog > 0)
        stage.simulator.behave { $0.script.failures = [] }
        daemon.signal(SIGHUP)
        #expect(stage.accepts(4001))
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.status().dead == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a topic of the settings that APNs refuses holds, one of the job buries the job`() throws {
        let stage = try Stage { $0.topics = [Stage.topic] }
        let daemon = try stage.start(["apns_topic": "\"com.example.other\""])
        try stage.push((0..<30).map { pushJob(deviceToken($0)) })
        #expect(daemon.says("APNs does not accept the topic from the settings or the certificate (TopicDisallowed)"))
        #expect(try waitUntil { try stage.status().backlog == 30 && stage.status().inFlight == 0 })
        #expect(try stage.status().dead == 0)
        try stage.write()
        daemon.signal(SIGHUP)
        #expect(stage.accepts(30))
        let own = pushJob("0a", #""topic":"com.example.third""#)
        try stage.push(own)
        #expect(try waitUntil { try stage.status().dead == 1 })
        let letter = try #require(try stage.deadLetters().first)
        #expect(letter.text("reason") == "TopicDisallowed")
        #expect(letter.text("job") == own)
        #expect(try stage.status().feedback == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a provider token that APNs calls expired is renewed, and the push goes out again uncounted`() throws {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        let minted = unixTime()
        #expect(waitUntil { unixTime() >= minted + 2 })
        // The first token is now 3,601 s old or older; one made now is 3,599 s old, and good.
        stage.simulator.advanceClock(seconds: 3599)
        try stage.push((0..<10).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(11, atMost: .seconds(4)))
        #expect(try stage.drains())
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().dead == 0)
        #expect(!daemon.standardError.contains("jobs stay in the queue"))
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a server whose certificate nobody vouches for gets not one byte of a push`() throws {
        let stage = try Stage()
        try stage.push(pushJob("0a"))
        let daemon = try stage.start(["apns_ca_path": nil])
        #expect(daemon.says("Its jobs stay in the queue until APNs accepts one."))
        #expect(try stage.backlog() == [pushJob("0a")])
        #expect(stage.simulator.totals.requests == 0)
        #expect(daemon.stop()?.status == 0)
    }

    /// Failed dials and the new certificate meet in one turn of the daemon, over and over.
    @Test func `a dial with the certificate of before does not hold the app that has a good one now`() throws {
        let stage = try Stage()
        let (wrong, good) = (try Credentials.make(), stage.credentials)
        var settings: [String: String?] = [
            "apns_cert_path": "\"own/client.pem\"", "apns_key_path": "\"own/client-key.pem\"", "pool_size": "8",
        ]
        for key in ["apns_auth_key_path", "apns_auth_key_id", "apns_team_id", "apns_topic"] { settings[key] = .some(nil) }
        try wrong.write(to: stage.folder.file("own"))
        let daemon = try stage.start(settings)
        for round in 1...10 {
            #expect(waitUntil { daemon.holds >= round })
            try good.write(to: stage.folder.file("own"))
            // What the simulator says of the dials under way is there when it wakes, and so is SIGHUP.
            daemon.signal(SIGSTOP)
            _ = waitUntil(atMost: .milliseconds(20)) { false }
            daemon.signal(SIGHUP)
            daemon.signal(SIGCONT)
            try stage.push(pushJob(deviceToken(round)))
            #expect(stage.accepts(round, atMost: .seconds(4)), "round \(round): \(daemon.standardError.suffix(2000))")
            try wrong.write(to: stage.folder.file("own"))
            daemon.signal(SIGHUP)
        }
        #expect(try stage.drains())
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a probe whose session breaks is followed by another`() throws {
        let stage = try Stage()
        let answers: [Answer] = [.status(403, "InvalidProviderToken"), .closeConnection(recorded: false), .accept]
        stage.simulator.plan(token: deviceToken(1), answers: answers)
        try stage.push(pushJob(deviceToken(1)))
        let daemon = try stage.start()
        // Probes after 5 s and, since that one says nothing, 10 s later.
        #expect(stage.accepts(1, atMost: .seconds(30)))
        #expect(try stage.drains())
        #expect(try stage.counter(.maybeDuplicate) == 1)
        #expect(daemon.stop()?.status == 0)
    }
}

extension DaemonProcess {
    /// How often an app was put on hold so far.
    fileprivate var holds: Int { standardError.split(separator: "\n").count { $0.contains("Its jobs stay in the queue") } }
}
