import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("Apps while the daemon runs", .blocking)
struct DaemonAppsDirTests {
    private static func write(_ content: String, to name: String, _ stage: Stage) throws {
        // Written beside the folder and moved, as a careful program does.
        try File.write(content, to: stage.folder.file("new"))
        #expect(rename(stage.folder.file("new"), stage.folder.file("apps/\(name).json")) == 0)
    }

    private static func given(_ changes: [String: String?] = [:], apps: [String: String] = [:]) throws -> (Stage, DaemonProcess) {
        let stage = try Stage()
        mkdir(stage.folder.file("apps"), 0o755)
        for (name, content) in apps { try write(content, to: name, stage) }
        return (stage, try stage.startOpen(["apps_dir": "\"apps\""].merging(changes) { $1 }))
    }

    private static func job(_ token: String, app: String) -> String { pushJob(token, #""app":"\#(app)""#) }

    private static func aside(_ app: String, _ stage: Stage) throws -> Int64 {
        try stage.command("LLEN", "{\(Stage.list)}:gapless:aside:\(app)").integer ?? 0
    }

    @Test func `a file that is added, changed and removed takes effect without a signal`() throws {
        let (stage, daemon) = try Self.given()
        try Self.write(appJSON(topic: "com.example.one"), to: "one", stage)
        #expect(daemon.says(#"Reloaded: apps_dir: added "one"."#))
        try stage.push(Self.job("0a", app: "one"))
        #expect(stage.accepts(2))
        try Self.write(appJSON(topic: "com.example.other"), to: "one", stage)
        #expect(daemon.says(#"Reloaded: apps_dir: changed "one"."#))
        try stage.push(Self.job("0b", app: "one"))
        #expect(stage.accepts(3))
        #expect(stage.simulator.ledger.entries.suffix(2).map(\.topic) == ["com.example.one", "com.example.other"])
        unlink(stage.folder.file("apps/one.json"))
        #expect(daemon.says(#"Reloaded: apps_dir: removed "one"."#), "\(daemon.standardError.suffix(3000))")
        try stage.push([Self.job("0c", app: "one"), pushJob("0d")])
        #expect(stage.accepts(4))
        #expect(try waitUntil { try Self.aside("one", stage) == 1 })
        #expect(try Call(["status", stage.folder.file("settings.json")]).output.contains("one"))
        #expect(try stage.deadLetters().isEmpty)
        try Self.write(appJSON(topic: "com.example.one"), to: "one", stage)
        #expect(stage.accepts(5))
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
    }

    @Test func `an app that is added or changed creates its channels under its present topic`() throws {
        let (stage, daemon) = try Self.given(["channels": #"{"*": {"storage": "latest"}}"#])
        func job(_ channel: String) -> String {
            let aps = #"{"timestamp":1795300000,"event":"update","content-state":{}}"#
            return #"{"channel_name":"\#(channel)","app":"one","data":{"aps":\#(aps)}}"#
        }
        try Self.write(appJSON(topic: "com.example.one"), to: "one", stage)
        #expect(daemon.says(#"Reloaded: apps_dir: added "one"."#))
        try stage.push(job("first"))
        #expect(stage.accepts(2))
        try Self.write(appJSON(topic: "com.example.other"), to: "one", stage)
        #expect(daemon.says(#"Reloaded: apps_dir: changed "one"."#))
        try stage.push(job("second"))
        #expect(stage.accepts(3))
        #expect(stage.simulator.ledger.entries.suffix(2).map(\.topic) == ["com.example.one", "com.example.other"])
        #expect(try stage.deadLetters().isEmpty)
    }

    @Test func `the jobs of an app that was removed wait across a restart, and go out once it is back`() throws {
        let (stage, daemon) = try Self.given(apps: ["one": appJSON(topic: "com.example.one")])
        try stage.push(Self.job("0a", app: "one"))
        #expect(stage.accepts(2))
        unlink(stage.folder.file("apps/one.json"))
        #expect(daemon.says(#"Reloaded: apps_dir: removed "one"."#))
        try stage.push((1...3).map { Self.job("1\($0)", app: "one") })
        #expect(try waitUntil { try Self.aside("one", stage) >= 3 })
        #expect(daemon.stop()?.status == 0)
        let retry = pushJob("0b", #""app":"one","_gapless_RETRYING":1"#)
        try stage.command("ZADD", stage.keys.delayed, "1", "w:1|\(retry)")
        try stage.push([Self.job("14", app: "one"), Self.job("15", app: "one"), Self.job("0c", app: "invented")])
        let second = try stage.start(["apps_dir": "\"apps\"", "pool_size": "1"])
        #expect(try waitUntil { try Self.aside("one", stage) == 6 })
        #expect(try waitUntil { try stage.deadLetters().count == 1 }, "the job of an unknown app")
        let settings = stage.folder.file("settings.json")
        #expect(try Call(["status", settings]).output.contains("one 6 (removed: not in the settings)"))
        #expect(try Call(["cancel", "--app", "one", "--yes", "--limit", "1", settings]).output.contains("1 cancelled"))
        #expect(try Call(["cancel", "--app", "invented", settings]).status == 64)
        try Self.write(appJSON(topic: "com.example.one"), to: "one", stage)
        #expect(stage.accepts(2 + 5))
        #expect(try stage.drains())
        let tokens = stage.simulator.ledger.entries.map(\.token).filter { $0.hasPrefix("1") }
        #expect(tokens == tokens.sorted(), "\(tokens)")
        #expect(tokens.count >= 4)
        #expect(second.stop()?.status == 0)
        #expect(try Call(["audit", settings]).status == 0)
    }

    @Test func `a fault in a file holds its app alone at the start, and a correction frees it`() throws {
        let (stage, daemon) = try Self.given(apps: [
            "good": appJSON(topic: "com.example.good"), "bad": appJSON(topic: nil, #""apns_tpic": "x""#),
        ])
        let file = stage.folder.file("apps/bad.json")
        #expect(daemon.says("\(file): apns_tpic: unknown key"))
        let check = try Call(["check", "--offline", stage.folder.file("settings.json")])
        #expect(check.status == 78 && check.errors.contains("\(file): apns_tpic: unknown key"))
        try stage.push([Self.job("0a", app: "bad"), Self.job("0b", app: "good")])
        #expect(stage.accepts(2))
        #expect(try waitUntil { try Self.aside("bad", stage) == 1 })
        try Self.write(appJSON(topic: "com.example.bad"), to: "bad", stage)
        #expect(stage.accepts(3))
    }

    @Test func `a faulty file of a running app holds it, and a half-written one is left alone`() throws {
        let (stage, daemon) = try Self.given(apps: ["one": appJSON(topic: "com.example.one")])
        let file = stage.folder.file("apps/one.json")
        try File.write(String(appJSON(topic: "com.example.two").dropLast(5)), to: file)
        #expect(daemon.says("\(file): the JSON is incomplete; the file is left alone until it is complete"))
        try stage.push(Self.job("0a", app: "one"))
        #expect(stage.accepts(2))
        try Self.write(#"{"apns_topic": 7}"#, to: "one", stage)
        #expect(daemon.says("\(file): apns_topic: invalid value 7"))
        try stage.push([Self.job("0b", app: "one"), pushJob("0c")])
        #expect(stage.accepts(3))
        #expect(try waitUntil { try Self.aside("one", stage) == 1 })
        // SIGHUP holds it as well.
        #expect(daemon.reloads())
        #expect(try Self.aside("one", stage) == 1)
        try Self.write(appJSON(topic: "com.example.two"), to: "one", stage)
        #expect(stage.accepts(4))
        #expect(stage.simulator.ledger.entries.last?.topic == "com.example.two")
    }

    @Test func `the start fails only if no app can send`() throws {
        let stage = try Stage()
        mkdir(stage.folder.file("apps"), 0o755)
        try Self.write("{}", to: "one", stage)
        let none = noCredential.merging(["apps_dir": "\"apps\""]) { $1 }
        let daemon = try stage.start(none)
        #expect(daemon.exitStatus() == 78)
        #expect(
            daemon.standardError.contains("\(stage.folder.file("apps/one.json")): apns_auth_key_path: no credential is given"))
        unlink(stage.folder.file("apps/one.json"))
        let empty = try stage.start(none)
        #expect(empty.says("no job is claimed before it has one"))
        try stage.push(Self.job("0a", app: "one"))
        try Self.write(appJSON(topic: "com.example.one"), to: "one", stage)
        #expect(stage.accepts(1))
    }

    @Test func `SIGHUP adds, changes and removes apps of the settings`() throws {
        let (stage, daemon) = try givenOpen(["apps": #"{"one": \#(appJSON(topic: "com.example.one"))}"#])
        try stage.write(["apps": #"{"one": \#(appJSON(topic: "com.example.new")), "two": \#(appJSON(topic: "com.example.two"))}"#]
        )
        #expect(daemon.reloads())
        try stage.push([Self.job("0a", app: "one"), Self.job("0b", app: "two")])
        #expect(stage.accepts(3))
        #expect(Set(stage.simulator.ledger.entries.suffix(2).map(\.topic)) == ["com.example.new", "com.example.two"])
        try stage.write()
        daemon.signal(SIGHUP)
        #expect(daemon.says("The settings no longer have the app"))
        try stage.push([Self.job("0c", app: "two"), pushJob("0d")])
        #expect(stage.accepts(4))
        #expect(try waitUntil { try Self.aside("two", stage) == 1 })
        try stage.write(["apps": #"{"two": \#(appJSON(topic: "com.example.two"))}"#])
        daemon.signal(SIGHUP)
        #expect(stage.accepts(5))
        #expect(try stage.drains())
    }

    @Test func `idle apps have no sessions, and the next job opens them`() throws {
        let stage = try Stage()
        let apps = #"{"one": \#(appJSON(topic: "com.example.one")), "two": \#(appJSON(topic: "com.example.two"))}"#
        let daemon = try stage.start(["apps": apps, "apps_idle_timeout": "0.5", "pool_size": "1"])
        #expect(try waitUntil { try stage.status().workers.count == 1 })
        #expect(stage.simulator.totals.connections == 0)
        try stage.push(Self.job("0a", app: "one"))
        #expect(stage.accepts(1))
        #expect(stage.simulator.totals.connections == 1)
        #expect(waitUntil { stage.simulator.totals.openConnections == 0 })
        try stage.push([Self.job("0b", app: "two"), Self.job("0c", app: "one"), pushJob("0d")])
        #expect(try stage.settles(4))
        #expect(stage.simulator.totals.connections == 4)
        #expect(daemon.stop()?.status == 0)
        #expect(try Call(["audit", stage.folder.file("settings.json")]).status == 0)
    }

    @Test func `a refused credential with another topic keeps the present one with its topic`() throws {
        func settings(_ key: String, _ topic: String) -> [String: String?] {
            ["apps": #"{"one": \#(appJSON(topic: topic, key: key))}"#]
        }
        let (stage, daemon) = try givenOpen(settings("SIMKEY0001", "com.example.old"))
        try stage.push(Self.job("0a", app: "one"))
        #expect(stage.accepts(2))
        stage.simulator.behave { $0.refusals = [.init(.key("SIMKEY0002"), .invalidProviderToken)] }
        try stage.write(settings("SIMKEY0002", "com.example.new"))
        #expect(daemon.reloads())
        try stage.push([Self.job("0b", app: "one"), Self.job("0c", app: "one")])
        #expect(stage.accepts(4))
        for token in ["0b", "0c"] {
            #expect(stage.simulator.ledger.requests(for: token).last?.topic == "com.example.old")
        }
        #expect(try stage.drains())
    }

    @Test func `a renewed certificate without the topic of the app is refused, unless apns_topic names the new one`() throws {
        let stage = try Stage()
        func make(_ topic: String, _ folder: String) throws {
            mkdir(stage.folder.file(folder), 0o755)
            _ = try Credentials.make(.init(topics: [topic])).write(to: stage.folder.file(folder))
        }
        try make("com.example.old", "cert")
        try make("com.example.new", "other")
        func settings(_ more: String = "") -> [String: String?] {
            ["apps": #"{"one": {"apns_cert_path": "cert/client.pem", "apns_key_path": "cert/client-key.pem"\#(more)}}"#]
        }
        let daemon = try stage.startOpen(settings())
        for name in ["client.pem", "client-key.pem"] {
            #expect(rename(stage.folder.file("other/\(name)"), stage.folder.file("cert/\(name)")) == 0)
        }
        #expect(daemon.reloads())
        #expect(
            daemon.says(
                #"apps.one.apns_cert_path: the certificate has no topic "com.example.old", which the app has had: "#
                    + "com.example.new"
            ))
        try stage.write(settings(#", "apns_topic": "com.example.new""#))
        daemon.signal(SIGHUP)
        #expect(waitUntil { daemon.reports.count { $0.contains("Reloaded: ") } == 2 })
        #expect(daemon.standardError.ranges(of: "which the app has had").count == 1)
    }
}
