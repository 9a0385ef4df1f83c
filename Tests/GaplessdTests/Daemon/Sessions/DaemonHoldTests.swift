import APNSSimulator
import Glibc
import Harness
import JSONBytes
import Platform
import RedisQueue
import Testing

/// CircuitBreakerTests and the tests of the dispatcher test the intervals of the probes.
@Suite("A wrong credential, topic or environment spends no jobs", .blocking)
struct DaemonHoldTests {
    /// Settings with a certificate, which tests replace.
    private static let ownCertificate = noCredential.merging([
        "apns_cert_path": "\"own/client.pem\"", "apns_key_path": "\"own/client-key.pem\"",
    ]) { $1 }

    @Test func `jobs for the wrong environment stay in the list until a reload`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.script.failures = [.init(.usual(400), 1)] }
        let jobs = (0..<60).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        let daemon = try stage.start()
        #expect(
            daemon.says("APNs has rejected 20 device tokens in a row: wrong environment or topic? Its jobs stay in the queue"))
        #expect(try waitUntil { try stage.status().backlog == 60 && stage.status().inFlight == 0 })
        #expect(stage.simulator.totals.requests <= 20)
        #expect(try stage.status().dead == 0)
        #expect(try stage.status().feedback == 0)
        #expect(Set(try stage.backlog()) == Set(jobs))
        stage.simulator.behave { $0.script.failures = [] }
        daemon.signal(SIGHUP)
        #expect(try stage.settles(60))
        #expect(stage.simulator.ledger.acceptedCounts.count == 60)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0)
    }

    @Test(arguments: [30, 90])
    func `a list with many dead tokens drains`(percent: Int) throws {
        let (stage, daemon) = try givenOpen()
        let isDead = { (number: Int) in number % 10 < percent / 10 }
        for number in 0..<3000 where isDead(number) { stage.simulator.plan(token: deviceToken(number), answers: [.usual(400)]) }
        try stage.push((0..<3000).map { pushJob(deviceToken($0)) })
        let dead = 30 * percent
        #expect(try stage.accept(until: { try stage.status().dead == dead }))
        #expect(try stage.drains())
        #expect(try stage.status().feedback == dead)
        #expect(Set(try stage.deadLetters().compactMap { $0.text("token") }).count == dead)
        #expect(!daemon.standardError.contains("jobs stay in the queue"))
    }

    @Test func `429 for the whole credential is a counted retry of its job, and other jobs wait`() throws {
        let (stage, daemon) = try givenOpen()
        stage.simulator.plan(token: "aa", answers: [.status(429, "Busy", retryAfter: 1)])
        try stage.push(pushJob("aa", #""identifier":1"#))
        #expect(daemon.says("(ID 1): 429 Busy. Retrying count (1)."))
        #expect(
            daemon.says(
                "APNs asks for fewer pushes (429 Busy): one job at a time probes until APNs accepts it. Its jobs stay"))
        let before = stage.simulator.totals.requests
        try stage.push((0..<50).map { pushJob(deviceToken($0)) })
        #expect(try waitUntil { try stage.status().backlog == 50 })
        #expect(daemon.says("APNs accepts pushes again: sending."))
        #expect(stage.accepts(52))
        #expect(stage.simulator.totals.requests == before + 51)
        #expect(try stage.drains())
        #expect(try stage.counter(.retried) == 1)
        #expect(try stage.status().dead == 0)
    }

    @Test func `a refused credential costs a handful of requests and no job`() throws {
        let stage = try Stage()
        stage.simulator.behave { $0.script.failures = [.init(.status(403, "InvalidProviderToken"), 1)] }
        let jobs = (0..<50).map { pushJob(deviceToken($0)) }
        try stage.push(jobs)
        let daemon = try stage.start()
        #expect(daemon.says("Its jobs stay in the queue until APNs accepts one"))
        #expect(try waitUntil { try stage.status().backlog == 50 && stage.status().inFlight == 0 })
        #expect(stage.simulator.totals.requests <= 5)
        #expect(try Set(stage.backlog()) == Set(jobs))
        stage.simulator.behave { $0.script.failures = [] }
        daemon.signal(SIGHUP)
        #expect(try stage.settles(50))
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0)
    }

    @Test func `a credential that APNs revokes under load holds the app`() throws {
        let (stage, daemon) = try givenOpen()
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
        #expect(try stage.settles(4001))
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.status().dead == 0)
    }

    @Test func `a refused topic of the settings with a suffix holds the app, also if its jobs name the push type`() throws {
        let (stage, daemon) = try given(["apns_topic": "\"com.example.other.voip\""], on: Stage { $0.topics = [Stage.topic] })
        try stage.push((0..<30).map { pushJob(deviceToken($0), #""push_type":"voip""#) })
        #expect(daemon.says("APNs does not accept the topic from the settings or the certificate (TopicDisallowed)"))
        #expect(try waitUntil { try stage.status().backlog == 30 && stage.status().inFlight == 0 })
        #expect(try stage.status().dead == 0)
    }

    @Test func `an expired provider token is renewed, and the push is resent uncounted`() throws {
        let (stage, daemon) = try givenOpen()
        let minted = unixTime()
        #expect(waitUntil { unixTime() >= minted + 2 })
        // For APNs the first token is at least 3,601 s old; a new token is 3,599 s old, and valid.
        stage.simulator.advanceClock(seconds: 3599)
        try stage.push((0..<10).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(11))
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().dead == 0)
        #expect(!daemon.standardError.contains("jobs stay in the queue"))
    }

    @Test func `a server with an untrusted certificate gets no byte of a push`() throws {
        let stage = try Stage()
        try stage.push(pushJob("0a"))
        let daemon = try stage.start(["apns_ca_path": nil])
        #expect(daemon.says("Its jobs stay in the queue until APNs accepts one"))
        #expect(try stage.backlog() == [pushJob("0a")])
        #expect(stage.simulator.totals.requests == 0)
    }

    /// Failed dials and the new certificate meet in one turn of the daemon, repeatedly.
    @Test func `a dial with the old certificate does not hold an app that has a good one`() throws {
        let stage = try Stage()
        let (wrong, good) = (try Credentials.make(), stage.credentials)
        let settings = Self.ownCertificate.merging(["pool_size": "8"]) { $1 }
        for round in 1...5 {
            try wrong.write(to: stage.folder.file("own"))
            let daemon = try stage.start(settings)
            #expect(waitUntil { daemon.holds >= 1 })
            try good.write(to: stage.folder.file("own"))
            // The failures of the current dials and SIGHUP are both there when the daemon continues.
            let dials = stage.simulator.totals.failedHandshakes
            daemon.signal(SIGSTOP)
            _ = waitUntil(atMost: .milliseconds(20)) { stage.simulator.totals.failedHandshakes >= dials + 8 }
            daemon.signal(SIGHUP)
            daemon.signal(SIGCONT)
            try stage.push(pushJob(deviceToken(round)))
            #expect(try stage.settles(round), "round \(round): \(daemon.standardError.suffix(2000))")
            #expect(daemon.stop()?.status == 0)
        }
    }

    @Test func `a new certificate that TLS refuses leaves the sessions as they were`() throws {
        let stage = try Stage()
        let settings = Self.ownCertificate.merging(["pool_size": "1"]) { $1 }
        try stage.credentials.write(to: stage.folder.file("own"))
        let daemon = try stage.start(settings)
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
        try Credentials.make().write(to: stage.folder.file("own"))
        #expect(daemon.reloads(saying: "APNs refuses the new credential ("))
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(101), "\(daemon.standardError)")
        #expect(daemon.holds == 0)
        #expect(!daemon.standardOutput.contains("is closed"))
    }
}

extension DaemonProcess {
    /// The number of times that an app was held so far.
    fileprivate var holds: Int { standardError.split(separator: "\n").count { $0.contains("Its jobs stay in the queue") } }
}

/// DispatchMemoryTests tests the decisions.
@Suite("An acceptance is remembered beside the list", .blocking)
struct DaemonAcceptanceTests {
    private func knowsAcceptance(_ stage: Stage) throws -> Bool {
        try stage.command("HLEN", stage.keys.accepted).integer == 1
    }

    @Test func `after a restart, dead tokens at the head of the list delay no good push`() throws {
        let stage = try Stage()
        let first = try stage.start()
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
        #expect(try waitUntil { try knowsAcceptance(stage) })
        #expect(first.stop()?.status == 0)
        for dead in 0..<300 { stage.simulator.plan(token: deviceToken(dead), answers: Array(repeating: .usual(400), count: 9)) }
        try stage.push((0..<2300).map { pushJob(deviceToken($0)) })
        let second = try stage.start()
        #expect(stage.accepts(2001))
        #expect(try waitUntil { try stage.status().dead == 300 })
        #expect(try stage.drains())
        #expect(!second.standardError.contains("jobs stay in the queue"))
        #expect(try stage.counter(.sent) == 2001)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
    }

    @Test func `if Redis refuses the key, an app begins in doubt, and the log says nothing about it`() throws {
        let stage = try Stage()
        _ = try stage.command("SET", stage.keys.accepted, "of another kind")
        let daemon = try stage.start()
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(100))
        #expect(!daemon.standardError.contains("WRONGTYPE"), "\(daemon.standardError)")
    }
}
