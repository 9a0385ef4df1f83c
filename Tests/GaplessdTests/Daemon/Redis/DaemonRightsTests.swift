import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

/// docs/redis.md of this checkout.
private let page = Checkout.read("docs/redis.md")

@Suite("The rights of docs/redis.md", .blocking)
struct DaemonRightsTests {
    /// The words of the line, for the stage's list.
    private func line(user: String) throws -> [String] {
        let line = try #require(page.split(separator: "\n").first { $0.hasPrefix("ACL SETUSER \(user) ") })
        return line.split(separator: " ").map {
            String($0).replacing("apns_queue", with: Stage.list).replacing("PASSWORD", with: "pw-5417")
        }
    }

    /// The rights in the second column of the row that begins with these words.
    private func more(for words: String) throws -> [String] {
        let row = try #require(page.split(separator: "\n").first { $0.hasPrefix("| \(words)") && $0.contains("`+") })
        return row.split(separator: "`").filter { $0.hasPrefix("+") }.flatMap { $0.split(separator: " ").map(String.init) }
    }

    private let user: [String: String?] = ["redis_username": "\"gaplessd\"", "redis_password": "\"pw-5417\""]

    private func run(_ stage: Stage, _ words: [String]) throws { #expect(try stage.redis.command(words) == .status("OK")) }

    /// Reads the rights of the user, over a new connection.
    private func rights(_ stage: Stage) throws -> UserRights {
        let settings = QueueSettings(
            list: Stage.list, server: .unix(path: stage.redis.socketPath), username: "gaplessd", password: "pw-5417")
        var client = try RedisClient(settings: settings)
        return try UserRights.read(&client, settings)
    }

    /// Causes a retry, dead letters, feedback, releases and recovered jobs.
    private func deliverAll(_ stage: Stage, _ changes: [String: String?]) throws {
        // Twice, because the crash may come between a response and its settlement.
        stage.simulator.plan(token: deviceToken(0), answers: [.usual(503), .usual(503), .usual(200)])
        stage.simulator.plan(token: deviceToken(1), answers: [.usual(410), .usual(410)])
        let crashed = try stage.start(changes, name: "crashed.json")
        try stage.open(crashed)
        stage.simulator.behave { $0.script.latency = .milliseconds(500)...(.milliseconds(600)) }
        try stage.push(
            (0..<300).map { pushJob(deviceToken($0)) } + ["rubbish", pushJob("0b", #""not_before": \#(unixTime() + 1)"#)])
        #expect(try waitUntil { try stage.status().inFlight > 100 || stage.simulator.totals.accepted > 100 })
        crashed.crash()
        stage.simulator.behave { $0.script.latency = .zero...(.zero) }
        let daemon = try stage.start(changes)
        #expect(try stage.drains(), "\(daemon.standardError)")
        #expect(!daemon.standardError.contains("NOPERM"), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
        let delivered = Set(stage.simulator.ledger.entries.map(\.token))
        #expect(delivered.isSuperset(of: (0..<300).map(deviceToken)))
        #expect(try stage.deadLetters().count == 2)
        #expect(try stage.status().workers.isEmpty)
    }

    @Test func `the line is enough for the daemon and for check`() throws {
        let stage = try Stage()
        try run(stage, try line(user: "gaplessd"))
        try deliverAll(stage, user)
        #expect(try stage.status().unexplained == 0)
        let check = try Call(["check", stage.folder.file("settings.json")])
        #expect(check.status == 0, "\(check.errors)")
        #expect(check.output.contains("\nredis: ok, unix:\(stage.redis.socketPath), Redis "))
    }

    @Test func `with the additional rights, results and at most once work`() throws {
        let stage = try Stage()
        try run(stage, try line(user: "gaplessd") + more(for: "`redis_results_key`") + ["~results"])
        try deliverAll(stage, user.merging(["redis_results_key": "\"results\""]) { $1 })
        #expect(try stage.command("XLEN", "results").integer ?? 0 > 300)
        try run(stage, try line(user: "gaplessd") + more(for: "`redis_delivery: at_most_once`"))
        let daemon = try stage.start(user.merging(["redis_delivery": "\"at_most_once\""]) { $1 })
        let before = stage.simulator.totals.accepted
        try stage.push((0..<300).map { pushJob(deviceToken(5000 + $0)) })
        #expect(stage.accepts(before + 300), "\(daemon.standardError)")
        let check = try Call(["check", stage.folder.file("settings.json")])
        #expect(check.status == 0, "\(check.errors)")
    }

    @Test func `the commands need the rights of the last row`() throws {
        let stage = try Stage()
        try run(stage, try line(user: "gaplessd") + more(for: "`status`, `audit`, `dead`"))
        let settings = try stage.write(user)
        try File.write(pushJob("0a") + "\n", to: stage.folder.file("jobs"))
        try stage.push("rubbish")
        try stage.start(user)
        #expect(try waitUntil { try stage.status().dead == 1 })
        for arguments in [
            ["status", settings], ["audit", settings], ["dead", settings, "list"],
            ["enqueue", settings, stage.folder.file("jobs")], ["dead", settings, "purge", "--yes"],
        ] {
            let call = try Call(arguments)
            #expect(call.status == 0, "\(arguments[0]): \(call.errors)")
        }
        #expect(try stage.status().dead == 0)
    }

    /// ACL files often refuse the commands that Redis calls dangerous. SORT and INFO are among them.
    @Test(arguments: [["-@dangerous"], ["-sort", "-memory|usage"]])
    func `a user that may not run SORT delivers all jobs, with one warning`(lacks: [String]) throws {
        let stage = try Stage()
        try run(stage, try line(user: "gaplessd") + lacks)
        try deliverAll(stage, user)
        #expect(try stage.status().unexplained == 0)
        let daemon = try stage.start(user, name: "warned.json")
        try stage.push([pushJob("0c")])
        #expect(waitUntil { daemon.says("a script copies the jobs instead") })
        #expect(daemon.stop()?.status == 0)
        #expect(daemon.standardError.ranges(of: "a script copies the jobs instead").count == 1)
    }

    @Test func `a producer needs only RPUSH`() throws {
        let stage = try Stage()
        try run(stage, try line(user: "producer"))
        var settings = QueueSettings(
            list: Stage.list, server: .unix(path: stage.redis.socketPath), username: "producer", password: "pw-5417")
        settings.timeout = .seconds(10)
        // Its rights do not include PING, which producers do not need.
        #expect(throws: RedisError.self) { _ = try RedisClient(settings: settings) }
        try run(stage, ["ACL", "SETUSER", "producer", "+ping"])
        var client = try RedisClient(settings: settings)
        #expect(try client.command(["RPUSH", Stage.list, pushJob("0a")]) == .integer(1))
        #expect(throws: RedisError.self) { try client.command(["LPOP", Stage.list]) }
    }

    @Test func `each missing right and each missing key is reported`() throws {
        let stage = try Stage()
        try run(stage, try line(user: "gaplessd"))
        func rights() throws -> UserRights { try self.rights(stage) }
        #expect(try rights().faults.isEmpty && rights().remarks.isEmpty)
        let ours = try line(user: "gaplessd").filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) }
        #expect(ours.count > 25)
        for right in ours {
            try run(stage, ["ACL", "SETUSER", "gaplessd", "-\(right)"])
            switch right {
            case "ping":
                let error = #expect(throws: RedisError.self) { try rights() }
                #expect(error?.description.contains(right) == true && error?.isRefusal == true)
            case "multi": #expect(try rights().faults.isEmpty && rights().remarks.isEmpty)
            case "discard": break  // Redis lets a client out of a transaction in any case, or we hang up.
            case "info", "blmove", "type", "sort", "memory|usage":
                #expect(try rights().remarks.first?.hasPrefix("this user may not run \(right): ") == true)
            default: #expect(try rights().faults == ["this user may not run \(right)"])
            }
            try run(stage, ["ACL", "SETUSER", "gaplessd", "+\(right)"])
        }
        try run(stage, ["ACL", "SETUSER", "gaplessd", "resetkeys", "~\(Stage.list)", "~\(stage.keys.dead)"])
        let keys = try rights().missingKeys
        #expect(keys.contains(stage.keys.stats) && keys.contains(stage.keys.delayed) && keys.contains(stage.keys.chunks("x")))
        #expect(!keys.contains(stage.keys.dead) && !keys.contains(Stage.list))
        try run(stage, ["ACL", "SETUSER", "gaplessd", "-ltrim", "-zadd"])
        let check = try Call(["check", try stage.write(user)])
        #expect(check.status == 78)
        #expect(
            check.errors.contains(
                "redis: refused: unix:\(stage.redis.socketPath): "
                    + "this user may not run ltrim, zadd; "
                    + "this user may not read and write the keys {\(Stage.list)}:gapless:workers, "
            ), "\(check.errors)")
    }

    @Test func `a user without MULTI is checked as well`() throws {
        let stage = try Stage()
        try run(stage, try line(user: "gaplessd") + ["-multi"])
        func rights() throws -> UserRights { try self.rights(stage) }
        for right in ["eval", "evalsha", "rpush", "ltrim", "zrangebyscore", "time"] {
            try run(stage, ["ACL", "SETUSER", "gaplessd", "-\(right)"])
            #expect(try rights().faults == ["this user may not run \(right)"])
            try run(stage, ["ACL", "SETUSER", "gaplessd", "+\(right)"])
        }
        try run(stage, ["ACL", "SETUSER", "gaplessd", "-info"])
        #expect(try rights().remarks == ["this user may not run info: gaplessd cannot warn of dangerous Redis settings"])
        #expect(try rights().faults == [])
        try run(stage, ["ACL", "SETUSER", "gaplessd", "resetkeys", "~\(stage.keys.dead)", "-zadd"])
        #expect(try rights().missingKeys.contains(Stage.list))
        #expect(try !rights().missingKeys.contains(stage.keys.dead))
        #expect(try rights().missingCommands == ["zadd"])
        #expect(try stage.command("KEYS", "*").items?.isEmpty == true)
    }

    @Test(arguments: [["MULTI"], ["TYPE"], ["INFO"], ["DISCARD"], ["MULTI", "INFO", "TYPE", "SORT", "MEMORY", "BLMOVE"]])
    func `check passes where the daemon works: Redis does not know a command`(renamed: [String]) throws {
        let stage = try Stage(redis: renamed.flatMap { ["--rename-command", $0, "hidden-\($0)"] })
        try stage.startOpen()
        let check = try Call(["check", stage.folder.file("settings.json")])
        #expect(check.status == 0, "\(check.errors)")
        #expect(check.output.contains(renamed.contains("INFO") ? "; this Redis has no info: " : ", Redis "), "\(check.output)")
    }

    @Test func `check says that scripts are required where Redis does not know EVAL`() throws {
        let stage = try Stage(redis: ["--rename-command", "EVAL", "hidden"])
        let check = try Call(["check", try stage.write()])
        #expect(check.status == 78)
        #expect(check.errors.contains("this Redis does not know the command eval, which gaplessd requires"), "\(check.errors)")
    }

    @Test(arguments: [["-multi", "-eval"], ["-@write"], ["-multi", "-@write"]])
    func `check and the daemon report the same missing rights`(lacks: [String]) throws {
        let stage = try Stage()
        try run(stage, try line(user: "gaplessd") + lacks)
        let daemon = try stage.start(user)
        #expect(daemon.exitStatus() == 78)
        let check = try Call(["check", stage.folder.file("settings.json")])
        #expect(check.status == 78)
        let right =
            lacks.last == "-@write" ? "del, hdel, hincrby, hset, lpush, ltrim, rpush, zadd, zrem" : String(lacks[1].dropFirst())
        #expect(check.errors.contains(": this user may not run \(right)\n"), "\(check.errors)")
        #expect(
            daemon.standardError.hasSuffix(
                "settings.json: redis_username: this user may not run \(right); "
                    + "expected a user with the rights in docs/redis.md\n"
            ),
            "\(daemon.standardError)")
    }

    @Test(arguments: [["-ping"], ["resetkeys", "~other"], ["-multi", "-eval", "resetkeys"]])
    func `check does not recommend check`(lacks: [String]) throws {
        let stage = try Stage()
        try run(stage, try line(user: "gaplessd") + lacks)
        let check = try Call(["check", try stage.write(user)])
        #expect(check.status == 78)
        #expect(!check.errors.contains("gaplessd check"), "\(check.errors)")
        #expect(
            ["'ping'", "the keys \(Stage.list), ", "run eval"].contains { check.errors.firstRange(of: $0) != nil },
            "\(check.errors)")
    }

    @Test func `the check of the rights executes no command`() throws {
        let stage = try Stage()
        try stage.push("job")
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: stage.redis.socketPath)))
        for mode in [QueueSettings.DeliveryMode.atLeastOnce, .atMostOnce] {
            let settings = QueueSettings(
                list: Stage.list, server: .unix(path: stage.redis.socketPath), mode: mode, resultsKey: "results")
            #expect(try UserRights.read(&client, settings).faults.isEmpty)
        }
        // Without MULTI, the following commands would run.
        try run(stage, ["ACL", "SETUSER", "default", "-multi"])
        let settings = QueueSettings(list: Stage.list, server: .unix(path: stage.redis.socketPath))
        let rights = try UserRights.read(&client, settings)
        #expect(rights.faults.isEmpty && rights.remarks.isEmpty)
        #expect(try stage.command("KEYS", "*").items?.compactMap(\.text) == [Stage.list])
        #expect(try stage.backlog() == ["job"])
    }
}

@Suite("The examples of docs/redis.md")
struct RedisPageTests {
    @Test func `each settings file is valid`() throws {
        let folder = SettingsFolder()
        let credentials = try Credentials.make()
        for (name, pem) in [
            ("redis-ca.pem", credentials.authorityPEM), ("redis-client.pem", credentials.clientCertificatePEM),
            ("redis-client-key.pem", credentials.clientKeyPEM),
        ] {
            try File.write(String(decoding: pem, as: UTF8.self), to: folder.file(name))
        }
        let examples = page.split(separator: "```json\n").dropFirst().compactMap {
            $0.split(separator: "```").first.map(String.init)
        }
        #expect(examples.count == 2)
        for example in examples { #expect(folder.faults(example) == []) }
    }
}
