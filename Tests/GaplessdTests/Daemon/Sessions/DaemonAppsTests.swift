import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("Several apps in one daemon", .blocking)
struct DaemonAppsTests {
    private static let apps = #"{"beta": \#(appJSON(topic: "com.example.beta")), "cert": \#(certificateJSON)}"#

    @Test func `a job selects its app by name or by topic, otherwise the top level`() throws {
        let (stage, daemon) = try given(["apps": Self.apps], on: Stage(topics: ["com.example.cert"]))
        try stage.push([
            pushJob("0a"), pushJob("0b", #""app":"beta""#), pushJob("0c", #""topic":"com.example.beta""#),
            pushJob("0d", #""app":"cert""#), pushJob("0e", #""topic":"com.example.cert""#),
            pushJob("0f", #""topic":"com.example.own.voip","push_type":"voip""#),
            pushJob("1a", #""app":"beta","topic":"com.example.beta.voip","push_type":"voip""#),
        ])
        #expect(stage.accepts(7))
        let topics = Dictionary(uniqueKeysWithValues: stage.simulator.ledger.entries.map { ($0.token, $0.topic ?? "none") })
        #expect(topics["0a"] == Stage.topic)
        #expect(topics["0b"] == "com.example.beta")
        #expect(topics["0c"] == "com.example.beta")
        #expect(topics["0d"] == "com.example.cert" || topics["0d"] == "none")
        #expect(topics["0e"] == "com.example.cert")
        #expect(topics["0f"] == "com.example.own.voip")
        #expect(topics["1a"] == "com.example.beta.voip")
        let sessions = Dictionary(grouping: stage.simulator.ledger.entries, by: \.connection).mapValues { Set($0.map(\.token)) }
        for tokens in sessions.values {
            let groups = [["0a", "0f"], ["0b", "0c", "1a"], ["0d", "0e"]].filter { !tokens.isDisjoint(with: $0) }
            #expect(groups.count == 1, "apps do not share a session: \(tokens)")
        }
        let unknown = pushJob("1b", #""app":"gamma""#)
        try stage.push(unknown)
        #expect(daemon.says(#"Parsing apns structure error (\#(unknown)): app "gamma" is unknown at byte 20."#))
        #expect(try stage.drains())
        #expect(try stage.deadLetters().map { $0.text("job") } == [unknown])
    }

    /// With a credential at the top level, and without one, where only the topic selects the app.
    @Test(arguments: [true, false])
    func `a topic selects the app with this topic in its settings or certificate`(hasTopLevel: Bool) throws {
        let (stage, daemon) = try given(
            (hasTopLevel ? [:] : noCredential).merging(["apps": #"{"cert": \#(certificateJSON)}"#]) { $1 },
            on: Stage(topics: ["com.example.cert", "com.example.cert.voip"]) { $0.topics = [] })
        try stage.push([
            pushJob("0a", #""topic":"com.example.cert""#), pushJob("0b", #""topic":"com.example.cert.voip","push_type":"voip""#),
        ])
        #expect(stage.accepts(2), "\(daemon.standardError)")
        let connections = stage.simulator.ledger.entries.map(\.connection)
        try stage.push(pushJob("0c", #""topic":"com.example.other""#))
        #expect(try stage.drains())
        if hasTopLevel {
            #expect(stage.accepts(3))
            #expect(stage.simulator.ledger.requests(for: "0c").allSatisfy { !connections.contains($0.connection) })
            #expect(try stage.status().dead == 0)
        } else {
            #expect(daemon.says("no app has the topic com.example.other"))
            try stage.push(pushJob("0d"))
            #expect(try waitUntil { try stage.status().dead == 2 }, "a job must name an app or a topic")
            #expect(try stage.deadLetters().last?.text("job") == pushJob("0d"))
            #expect(daemon.says("Parsing apns structure error (\(pushJob("0d"))): "))
        }
    }

    @Test func `a reload with the apps in another order changes nothing`() throws {
        func apps(_ names: [String]) -> [String: String?] {
            ["apps": "{" + names.map { #""\#($0)": \#(appJSON(topic: "com.example.\($0)"))"# }.joined(separator: ", ") + "}"]
        }
        let (stage, daemon) = try given(apps(["one", "two", "three"]))
        #expect(daemon.says(" is open, "))
        try stage.write(apps(["three", "one", "two"]))
        #expect(daemon.reloads(), "\(daemon.standardError)")
        try stage.push(["one", "two", "three"].map { pushJob("0a", #""app":"\#($0)""#) })
        #expect(stage.accepts(3))
        #expect(
            Set(stage.simulator.ledger.entries.compactMap(\.topic)) == [
                "com.example.one", "com.example.two", "com.example.three",
            ])
    }

    @Test(arguments: ["expired", "missing", "rubbish"])
    func `an app whose credential cannot be used is held alone, until a reload corrects it`(fault: String) throws {
        let stage = try Stage(topics: ["com.example.cert"]) { $0.topics = [Stage.topic, "com.example.cert"] }
        let app = #"{"bad": \#(certificateJSON)}"#
        let bad = stage.folder.file("credentials/bad.pem")
        switch fault {
        case "expired":
            let other = stage.folder.file("expired")
            var request = Credentials.Request(topics: ["com.example.cert"])
            request.clientValidity = -7200 ... -3600
            try Credentials.make(request).write(to: other)
            try File.write(File.read("\(other)/client.pem"), to: bad)
        case "rubbish": try File.write("rubbish", to: bad)
        default: break
        }
        let settings: [String: String?] = [
            "apps": app.replacing("client.pem", with: "bad.pem"), "metrics_listen": "\"127.0.0.1:0\"",
        ]
        let daemon = try stage.start(settings)
        let port = try #require(daemon.metricsPort())
        let held = (0..<5).map { pushJob(deviceToken(100 + $0), #""app":"bad""#) }
        try stage.push(held + (0..<100).map { pushJob(deviceToken(1000 + $0)) } + [pushJob("0a", #""app":"unknown""#)])
        #expect(stage.accepts(100), "\(daemon.standardError)")
        #expect(daemon.says(#"app "bad": The credential cannot be used (apps.bad.apns_cert_path: "#), "\(daemon.standardError)")
        #expect(
            waitUntil {
                HTTPTalk.get("/readyz", port: port)?.body.contains("app bad is held: The credential cannot be used (") == true
            })
        #expect(try waitUntil { try Set(stage.backlog()) == Set(held) })
        // The job of an unknown app alone.
        #expect(try stage.status().dead == 1)
        #expect(try Call(["check", "--offline", stage.folder.file("settings.json")]).status == 78)
        #expect(daemon.reloads(saying: "Reloaded: no app has changed"), "\(daemon.standardError)")
        try stage.write(settings.merging(["apps": app]) { $1 })
        daemon.signal(SIGHUP)
        #expect(stage.accepts(105), "\(daemon.standardError)")
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port)?.status == 200 })
        #expect(daemon.complaints.count { $0.contains("The credential cannot be used") } == 1)
    }

    @Test func `the daemon does not start if no app can send`() throws {
        let stage = try Stage()
        let daemon = try stage.start([
            "apns_auth_key_path": "\"none.p8\"", "apps": #"{"p12": {"apns_p12_path": "none.p12"}}"#,
        ])
        #expect(daemon.exitStatus() == 78)
        for key in ["apns_auth_key_path: ", "apps.p12.apns_p12_path: "] { #expect(daemon.standardError.contains(key)) }
    }

    @Test func `a held app with a long backlog does not delay another one, and continues after a reload`() throws {
        let stage = try Stage { $0.topics = [Stage.topic] }
        let held = 20_000
        // These jobs come first, and the daemon has not had an acceptance yet.
        try stage.push((0..<held).map { pushJob(deviceToken($0), #""app":"beta""#) })
        try stage.push((held..<held + 200).map { pushJob(deviceToken($0)) })
        let daemon = try stage.start(["apps": Self.apps])
        #expect(daemon.says(#"app "beta": APNs does not accept the topic from the settings"#))
        #expect(stage.accepts(200), "\(stage.simulator.totals.accepted) accepted")
        for round in 1...5 {
            try stage.push((held + 200 * round..<held + 200 * (round + 1)).map { pushJob(deviceToken($0)) })
            #expect(stage.accepts(200 * (round + 1)))
        }
        #expect(stage.simulator.totals.requests <= 1200 + 30)
        #expect(
            try waitUntil {
                let status = try stage.status()
                return status.backlog + status.inFlight == held
            })
        #expect(try stage.status().dead == 0)
        try stage.write(["apps": Self.apps.replacing("com.example.beta", with: Stage.topic)])
        daemon.signal(SIGHUP)
        #expect(try stage.settles(held + 1200))
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
    }

    @Test func `an idle app holds no jobs for an app without responses`() throws {
        let stage = try Stage {
            $0.behaviour.streamLimit = 50
            $0.behaviour.tokenStreamLimit = 50
        }
        let daemon = try stage.startOpen(["apps": Self.apps])
        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        try stage.push((0..<5000).map { pushJob(deviceToken($0)) })
        #expect(waitUntil { stage.simulator.totals.requests == 101 })
        // Two sessions of 50 streams, the same for the next jobs, and all of it once more.
        #expect(
            try waitUntil {
                let status = try stage.status()
                return status.backlog == status.asides[""] && status.backlog + status.inFlight == 5000
                    && status.inFlight <= 400
            })
        daemon.crash()
    }

    @Test func `a silent app with a thousand jobs in front stops no other, and what waits for it costs next to nothing`() throws {
        let stage = try Stage(redis: ["--appendonly", "yes"], topics: ["com.example.cert"]) {
            $0.behaviour.streamLimit = 50
            $0.behaviour.tokenStreamLimit = 50
        }
        let daemon = try stage.start(["apps": Self.apps, "apns_request_timeout": "300", "drain_timeout": "1"])
        try stage.push(["", #""app":"beta""#, #""app":"cert""#].map { pushJob("0a", $0) })
        #expect(stage.accepts(3), "each app has an acceptance")
        stage.simulator.plan(token: "bebe", answers: Array(repeating: .silent, count: 2000))
        let silent = (0..<1000).map { pushJob("bebe", #""app":"beta","identifier":\#($0)"#) }
        try stage.push(silent)
        for app in ["", #""app":"cert""#] {
            let first = app.isEmpty ? 1000 : 3000
            try stage.push((first..<first + 1000).map { pushJob(deviceToken($0), app) })
        }
        #expect(stage.accepts(2003), "\(stage.simulator.totals.accepted) accepted")
        #expect(try waitUntil { try stage.status().asides["beta", default: 0] + stage.status().inFlight == 1000 })
        let worker = try #require(try stage.status().workers.first?.name)
        func beats() throws -> Int {
            try stage.command("ZSCORE", stage.keys.workers, worker).text.flatMap { Int($0) } ?? 0
        }
        func figures() throws -> (commands: Int, bytes: Int) {
            let lines = try stage.command("INFO", "all").text?.split(whereSeparator: \.isNewline) ?? []
            var (commands, bytes) = (0, 0)
            for line in lines {
                func number(behind text: String) -> Int {
                    line.hasPrefix(text) ? Int(line.dropFirst(text.count).prefix { $0.isNumber }) ?? 0 : 0
                }
                bytes += number(behind: "aof_current_size:")
                // The test asks by ZSCORE and INFO.
                guard line.hasPrefix("cmdstat_"), !line.hasPrefix("cmdstat_zscore"), !line.hasPrefix("cmdstat_info") else {
                    continue
                }
                commands += line.split(separator: "=").dropFirst().first.flatMap { Int($0.prefix { $0.isNumber }) } ?? 0
            }
            return (commands, bytes)
        }
        let first = try beats()
        #expect(try waitUntil { try beats() > first }, "idle")
        let (begin, before) = (try beats(), try figures())
        #expect(try waitUntil { try beats() >= begin + 2 })
        let (count, after) = (try beats() - begin, try figures())
        print("\(after.commands - before.commands) commands, \(after.bytes - before.bytes) bytes in \(count) beats")
        // A beat is due every three seconds.
        #expect(after.commands - before.commands <= 300 * count, "\(before) \(after) \(count)")
        #expect(after.bytes - before.bytes <= 300_000 * count, "\(before) \(after) \(count)")
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().asides == [:])
        #expect(try stage.backlog() == silent, "in their order")
    }

    @Test func `a job without any topic is a bad job`() throws {
        let stage = try Stage()
        let certificate = try ChildProcess(
            "openssl",
            [
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9", "-subj", "/CN=without a topic", "-keyout",
                stage.folder.file("credentials/bare-key.pem"), "-out", stage.folder.file("credentials/bare.pem"),
            ])
        #expect(certificate.wait().status == 0)
        let certificateJSON = certificateJSON.replacing("client", with: "bare")
        let daemon = try stage.start(["apps": #"{"bare": \#(appJSON(topic: nil)), "cert": \#(certificateJSON)}"#])
        let bad = [
            pushJob("0a", #""app":"bare""#), pushJob("0b", #""app":"cert""#), pushJob("0c", #""app":"bare","topic":null"#),
            #"{"channel":"dHN0LXNyY2gtY2hubA==","app":"bare","data":{}}"#,
        ]
        try stage.push(bad + [pushJob("0d", #""app":"bare","topic":"com.example.other""#), pushJob("0e")])
        #expect(try waitUntil { try stage.status().dead == 4 })
        #expect(try stage.settles(2))
        #expect(Set(try stage.deadLetters().compactMap { $0.text("job") }) == Set(bad))
        #expect(
            Set(try stage.deadLetters().compactMap { $0.text("reason") })
                == Set(["bare", "cert"].map { #"Parsing apns structure error: topic is missing, and app "\#($0)" has none"# }))
        #expect(daemon.says(#"Parsing apns structure error (\#(bad[0])): topic is missing, and app "bare" has none"#))
        #expect(Set(stage.simulator.ledger.entries.map(\.token)) == ["0d", "0e"])
        #expect(stage.simulator.ledger.entries.allSatisfy { $0.topic != nil })
    }
}
