import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("SIGHUP", .blocking)
struct DaemonReloadTests {
    /// The second key that the simulator accepts.
    private static let useSecondKey: [String: String?] = [
        "apns_auth_key_path": "\"credentials/AuthKey_SIMKEY0002.p8\"", "apns_auth_key_id": "\"SIMKEY0002\"",
    ]

    @Test func `responses of the previous environment do not settle suspect tokens after a reload`() throws {
        let stage = try Stage()
        var configuration = Simulator.Configuration(credentials: stage.credentials)
        configuration.behaviour.script.failures = [.init(.delay(.seconds(2), then: .usual(400)), 1)]
        configuration.behaviour.tokenStreamLimit = 1000
        let wrong = try Simulator(configuration)
        let daemon = try stage.start(["apns_server": "\"localhost:\(wrong.port)\"", "pool_size": "1"])
        #expect(daemon.says("is open"))
        try stage.push((0..<10).map { pushJob(deviceToken($0)) })
        // A claimed job that no session has sent would go to the right environment only.
        #expect(waitUntil { wrong.totals.requests >= 10 })
        try stage.write(["pool_size": "1"])
        #expect(daemon.reloads(saying: "Reloaded"))
        #expect(waitUntil { daemon.reports.count { $0.contains(" is open, ") } == 2 })
        // The right environment accepts these jobs before the wrong one refuses the others.
        try stage.push((10..<30).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(30), "\(daemon.standardError)")
        #expect(wrong.totals.requests >= 10)
        #expect(try stage.status().dead == 0)
        #expect(try stage.status().feedback == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a new key is used from then on, under load`() throws {
        let (stage, daemon) = try givenOpen()
        stage.simulator.behave { $0.script.latency = .milliseconds(5)...(.milliseconds(15)) }
        try stage.push((0..<3000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(500))
        try stage.write(Self.useSecondKey)
        #expect(daemon.reloads())
        #expect(try stage.settles(3001), "\(daemon.standardError)")
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        // The old sessions may serve every job before the second new one opens.
        #expect(waitUntil { stage.simulator.totals.connections >= 4 }, "new sessions for the new key")
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.counter(.retried) == 0)
    }

    @Test func `a new key that APNs refuses leaves the sessions and the key as they were`() throws {
        let (stage, daemon) = try givenOpen(["pool_size": "1"], on: Stage { $0.providerKeys.removeLast() })
        try stage.write(Self.useSecondKey.merging(["pool_size": "1"]) { $1 })
        daemon.signal(SIGHUP)
        #expect(waitUntil { daemon.reports.count { $0.contains(" is open, ") } == 2 })
        var count = 0
        #expect(
            try waitUntil {
                count += 1
                try stage.push(pushJob(deviceToken(count)))
                return daemon.standardError.contains("APNs refuses the new credential (403 InvalidProviderToken)")
            })
        try stage.push((1000..<1100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(1 + count + 100), "\(daemon.standardError)")
        #expect(!daemon.standardError.contains("Its jobs stay in the queue"))
        #expect(!daemon.standardOutput.contains("Session 1 to localhost:\(stage.simulator.port) is closed"))
        #expect(try stage.counter(.retried) == 0)
    }

    @Test func `a new key replaces a revoked one at once`() throws {
        let stage = try Stage { $0.providerKeys.removeFirst() }
        try stage.push((0..<30).map { pushJob(deviceToken($0)) })
        let daemon = try stage.start()
        #expect(daemon.says("InvalidProviderToken"))
        try stage.write(Self.useSecondKey)
        daemon.signal(SIGHUP)
        #expect(try stage.settles(30))
    }

    @Test func `gaplessd reload waits for the result, and fails with the faults`() throws {
        let (stage, daemon) = try givenOpen()
        let pid = "\(daemon.process.pid)"
        let reloaded = try Call(["reload", pid])
        #expect(reloaded.status == 0 && reloaded.output == "reloaded\n", "\(reloaded.errors)")
        #expect(daemon.says("Reloaded: "))
        for (changes, fault) in [
            (["pool_size": "0"], "pool_size: 0 is out of range"),
            (["redis_db": "1"], "redis_db: cannot change while gaplessd runs"),
        ] as [([String: String?], String)] {
            try stage.write(changes)
            let rejected = try Call(["reload", pid, "--json"])
            #expect(rejected.status == 78 && rejected.errors.contains(fault), "\(rejected.errors)")
            #expect(rejected.output.hasPrefix("{\"reloaded\": false, \"faults\": [\"") && rejected.output.contains(fault))
        }
        // The previous settings are in force.
        try stage.push(pushJob(deviceToken(1)))
        #expect(stage.accepts(2))
        try stage.write(["retry_limit": "2"])
        #expect(try Call(["reload", pid, "--json"]).output == "{\"reloaded\": true, \"faults\": []}\n")
        #expect(daemon.stop()?.status == 0)
        #expect(try Call(["reload", pid]).status == 1)
        #expect(try Call(["reload", "0"]).status == 64)
    }

    @Test func `faults in the new files are logged, and the old settings stay in use`() throws {
        let (stage, daemon) = try givenOpen()
        let wrong: [(String, () throws -> Void)] = [
            ("no JSON", { try File.write("{rubbish", to: stage.folder.file("settings.json")) }),
            ("pool_sze", { try stage.write(["pool_sze": "2"]) }),
            ("apns_auth_key_path", { try stage.write(["apns_auth_key_path": "\"missing.p8\""]) }),
            ("redis_db: cannot change while gaplessd runs", { try stage.write(["redis_db": "1"]) }),
            ("redis_queue_key", { try stage.write(["redis_queue_key": "\"other\""]) }),
        ]
        for (number, (name, spoil)) in wrong.enumerated() {
            try spoil()
            daemon.signal(SIGHUP)
            #expect(
                waitUntil {
                    daemon.standardError.split(separator: "Reload failed", omittingEmptySubsequences: false).count == number + 2
                },
                "\(name)")
            #expect(name == "no JSON" || daemon.standardError.contains(name))
            try stage.push(pushJob(deviceToken(number)))
            #expect(stage.accepts(number + 2))
        }
        try stage.write()
        try File.write(
            "-----BEGIN PRIVATE KEY-----\nrubbish\n-----END PRIVATE KEY-----\n",
            to: stage.folder.file("credentials/AuthKey_SIMKEY0001.p8"))
        daemon.signal(SIGHUP)
        #expect(waitUntil { daemon.standardError.contains("AuthKey_SIMKEY0001.p8") })
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(wrong.count + 2))
        #expect(!daemon.standardOutput.contains("Reloaded: "))
    }

    @Test func `the password of Redis and redis_dead_letter_max can change`() throws {
        let (stage, daemon) = try givenOpen(["metrics_listen": "\"127.0.0.1:0\""])
        try stage.command("CONFIG", "SET", "requirepass", "new-9172")
        try stage.write(["redis_password": "\"new-9172\"", "redis_dead_letter_max": "1", "metrics_listen": "\"127.0.0.1:0\""])
        #expect(daemon.reloads(), "\(daemon.standardError)")
        try stage.killClients()
        try stage.push([pushJob("0a"), "no job", "none either"])
        #expect(stage.accepts(2))
        #expect(try waitUntil { try stage.counter(.dead) == 2 })
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(!daemon.standardError.contains("NOAUTH") && !daemon.standardError.contains("new-9172"))
    }

    @Test func `other settings apply from then on`() throws {
        let (stage, daemon) = try givenOpen()
        #expect(!daemon.standardOutput.contains("Sent:"))
        try stage.write([
            "log_successes": "true", "log_format": "\"json\"", "retry_limit": "0", "apns_topic": "\"com.example.second\"",
        ])
        #expect(daemon.reloads(saying: "\"message\": \"Reloaded: "))
        stage.simulator.plan(token: "0b", answers: [.usual(503)])
        try stage.push([pushJob("0a"), pushJob("0b")])
        #expect(daemon.says("\"message\": \"Sent\", \"job\": \(pushJob("0a")), \"event\": \"push_sent\""))
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(stage.simulator.ledger.requests(for: "0a").first?.topic == "com.example.second")
        #expect(stage.simulator.ledger.requests(for: "0b").count == 1)
    }

    @Test func `an app whose new credential cannot be used keeps the previous one, and the others reload`() throws {
        let stage = try Stage(topics: ["com.example.cert"]) { $0.topics = [Stage.topic, "com.example.cert"] }
        let apps = #"{"cert": \#(certificateJSON)}"#
        let daemon = try stage.startOpen(["apps": apps])
        try stage.push(pushJob("0a", #""app":"cert""#))
        #expect(stage.accepts(2))
        // A certificate of 1024 bits is valid, but TLS rejects it.
        let weak = try ChildProcess(
            "openssl",
            [
                "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-days", "9", "-subj", "/UID=com.example.app/CN=weak", "-keyout",
                stage.folder.file("credentials/weak-key.pem"), "-out", stage.folder.file("credentials/weak.pem"),
            ])
        #expect(weak.wait().status == 0)
        let used = Set(stage.simulator.ledger.requests(for: "0a").map(\.connection))
        try stage.write(Self.useSecondKey.merging(["apps": apps.replacing("client", with: "weak")]) { $1 })
        #expect(daemon.reloads(saying: "apps.cert.apns_cert_path: cannot be used: "))
        #expect(daemon.says(#"Only app "cert" keeps its previous credential"#))
        #expect(daemon.says("signed with the key SIMKEY0002"), "\(daemon.standardError)")
        #expect(!daemon.standardError.contains("Reload failed"))
        let closed = daemon.reports.count { $0.contains(#"app "cert": Session "#) && $0.contains("is closed") }
        #expect(closed == 0, "\(daemon.standardOutput)")
        try stage.push((0..<100).map { pushJob(deviceToken($0)) + "" } + [pushJob("0b", #""app":"cert""#)])
        #expect(stage.accepts(103))
        #expect(!used.isEmpty)
        #expect(try Call(["check", "--offline", stage.folder.file("settings.json")]).status == 78)
    }

    @Test func `a reload without a change keeps every session`() throws {
        let (stage, daemon) = try givenOpen(["apps": #"{"cert": \#(certificateJSON)}"#])
        #expect(waitUntil { stage.simulator.totals.connections == 4 })
        for number in 1...30 {
            daemon.signal(SIGHUP)
            #expect(waitUntil { daemon.reports.count { $0.contains("Reloaded: no app has changed") } == number })
        }
        // The content of one file: only its app gets new sessions.
        let key = stage.folder.file("credentials/client-key.pem")
        try File.write(File.read(key) + "\n", to: key)
        try stage.push((0..<10).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(11))
        #expect(stage.simulator.totals.connections == 4)
        #expect(daemon.reloads(saying: "Reloaded: opening sessions"))
        #expect(waitUntil { stage.simulator.totals.connections == 6 })
        #expect(waitUntil { daemon.reports.count { $0.contains("is closed") } == 2 })
        #expect(daemon.reports.filter { $0.contains("is closed") }.allSatisfy { $0.contains(#"app "cert": "#) })
    }

    @Test func `settings that Redis refuses are rejected before anything changes`() throws {
        let (stage, daemon) = try givenOpen()
        try stage.command("SET", "taken", "x")
        try stage.write(Self.useSecondKey.merging(["redis_results_key": "\"taken\""]) { $1 })
        daemon.signal(SIGHUP)
        #expect(
            daemon.says("redis_results_key: the key taken is a string, not a stream; expected another key"),
            "\(daemon.standardError)")
        #expect(daemon.says("Reload failed: "))
        try stage.write(Self.useSecondKey.merging(["redis_password": "\"wrong-9172\""]) { $1 })
        #expect(daemon.reloads(saying: "redis_password: AUTH was refused"), "\(daemon.standardError)")
        #expect(waitUntil { daemon.complaints.count { $0.contains("Reload failed: ") } == 2 })
        try stage.push((0..<50).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(51))
        #expect(stage.simulator.totals.connections == 2)
        #expect(!daemon.standardError.contains("WRONGTYPE") && !daemon.standardError.contains("9172"))
        try stage.write(["redis_results_key": "\"{\(Stage.list)}:results\""])
        #expect(daemon.reloads(), "\(daemon.standardError)")
        try stage.push(pushJob("0a"))
        #expect(try waitUntil { try stage.command("XLEN", "{\(Stage.list)}:results").integer == 1 })
    }

    @Test func `new sessions open before the old ones close`() throws {
        let (stage, daemon) = try givenOpen(["pool_size": "1"])
        try stage.write(["pool_size": "1", "apns_keepalive": "59"])
        #expect(daemon.reloads(saying: "Session 1 to "))
        #expect(waitUntil { daemon.reports.count { $0.contains(" is open, ") } == 2 })
        // The old one stays until the new one has had an acceptance.
        var count = 0
        #expect(
            try waitUntil {
                count += 1
                try stage.push(pushJob(deviceToken(count)))
                return daemon.standardOutput.contains(" is closed.")
            })
        #expect(waitUntil { daemon.standardOutput.contains(" is closed.") })
        let news = daemon.reports.filter { $0.contains("Session ") }
        #expect(news.map { $0.contains("Session 1 ") } == [true, false, true])
        #expect(news.map { $0.contains(" is open, ") } == [true, true, false])
    }
}
