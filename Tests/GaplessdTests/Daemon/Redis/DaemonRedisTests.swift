import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("Connections to Redis", .blocking)
struct DaemonRedisTests {
    @Test func `a password file works, and no output contains the password`() throws {
        let stage = try Stage()
        try stage.command("CONFIG", "SET", "requirepass", "open sesame 5417")
        try File.write("open sesame 5417\n", to: stage.folder.file("secret"))
        let daemon = try stage.start(["redis_password_file": "\"secret\"", "log_level": "\"debug\""])
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
        #expect(daemon.stop()?.status == 0)
        #expect(!(daemon.standardOutput + daemon.standardError).contains("sesame"))
    }

    /// A command that prepares Redis, a setting, and the line about it.
    @Test(arguments: [
        (["CONFIG", "SET", "requirepass", "right-5417"], ["redis_password": "\"wrong-5417\""], "redis_password: AUTH "),
        (
            ["CONFIG", "SET", "requirepass", "right-5417"], [:],
            "redis_password: required key is missing: Redis requires a password (NOAUTH "
        ),
        (
            ["PING"], ["redis_password": "\"mine-5417\""],
            "redis_password: AUTH was refused (ERR): this Redis has no password; expected no password\n"
        ),
        (["PING"], ["redis_db": "99"], "redis_db: Redis has no database 99 ("),
    ])
    func `a setting that Redis refuses at the start is a fault of one line, without the password`(
        command: [String], setting: [String: String], fault: String
    ) throws {
        let stage = try Stage()
        try stage.command(command)
        let daemon = try stage.start(setting.mapValues { $0 })
        #expect(daemon.exitStatus() == 78)
        #expect(!(daemon.standardOutput + daemon.standardError).contains("5417"))
        #expect(daemon.standardError.split(separator: "\n").count == 1, "\(daemon.standardError)")
        #expect(daemon.standardError.hasPrefix("\(stage.folder.file("settings.json")): \(fault)"), "\(daemon.standardError)")
    }

    @Test(arguments: ["", ":gapless:delayed", ":gapless:dead", ":gapless:workers", ":gapless:holders"])
    func `a key of another type at the start is a settings fault`(suffix: String) throws {
        let key = suffix.isEmpty ? Stage.list : "{\(Stage.list)}\(suffix)"
        let stage = try Stage()
        try stage.command("SET", key, "text")
        let daemon = try stage.start()
        #expect(daemon.exitStatus() == 78)
        let lines = daemon.standardError.split(separator: "\n")
        #expect(lines.count == 1 && lines[0].contains("WRONGTYPE"), "\(lines)")
        #expect(lines.first?.contains("settings.json: redis_queue_key: the key \(key) is a string, not a ") == true, "\(lines)")
    }

    @Test func `a changed password is logged, and needs no restart when it is reverted`() throws {
        let (stage, daemon) = try givenOpen()
        try stage.command("CONFIG", "SET", "requirepass", "other-5417")
        try stage.killClients()
        #expect(daemon.says("Redis refuses: NOAUTH"))
        try stage.command("CONFIG", "SET", "requirepass", "")
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(2))
    }

    @Test func `the daemon waits for a Redis that is unavailable at the start`() throws {
        let stage = try Stage()
        try stage.push(pushJob("0a"))
        stage.redis.kill()
        let daemon = try stage.start()
        #expect(daemon.says("Jobs stay in the queue; trying again."))
        #expect(daemon.process.poll() == nil)
        try stage.redis.restart()
        try stage.reconnect()
        try stage.push(pushJob("0b"))
        #expect(stage.accepts(1))
    }

    @Test func `several lists are served by priority, each with its own keys`() throws {
        let stage = try Stage()
        let lists = ["urgent", "{tag}normal", "late"]
        for (number, list) in lists.enumerated() {
            try stage.push((0..<300).map { pushJob(deviceToken(number * 1000 + $0)) }, to: list)
        }
        stage.simulator.plan(token: deviceToken(1000), answers: [.usual(410)])
        stage.simulator.behave { $0.script.latency = .milliseconds(1)...(.milliseconds(2)) }
        try stage.start([
            "redis_queue_key": #"["urgent", "{tag}normal", "late"]"#, "apns_max_concurrent_streams": "4", "pool_size": "1",
        ])
        #expect(stage.accepts(899))
        #expect(try waitUntil { try lists.allSatisfy { try stage.status(of: $0).inFlight == 0 } })
        let order = stage.simulator.ledger.entries.map(\.token)
        let last = try #require(order.lastIndex(of: deviceToken(299)))
        let late = try #require(order.firstIndex(of: deviceToken(2000)))
        #expect(last < 400, "the urgent ones are through first")
        #expect(late > 500)
        #expect(try stage.status(of: "{tag}normal").dead == 1)
        #expect(try stage.command("LLEN", "{tag}normal:gapless:dead").integer == 1)
        #expect(try stage.status(of: "urgent").counters[.sent] == 300)
        #expect(try stage.status(of: "late").counters[.sent] == 300)
    }

    /// The lease of a list that Redis refuses expires; the leases of the others do not.
    @Test func `a list that cannot be served stops no other`() throws {
        let (stage, daemon) = try given([
            "redis_queue_key": #"["first", "bad", "last"]"#, "redis_lease": "2", "apns_max_concurrent_streams": "10",
            "pool_size": "1",
        ])
        stage.simulator.behave { $0.script.latency = .milliseconds(100)...(.milliseconds(100)) }
        try stage.push(pushJob("0a"), to: "last")
        #expect(stage.accepts(1))
        // Claimed jobs wait for streams when their list breaks.
        try stage.push((0..<1000).map { pushJob(deviceToken($0)) }, to: "bad")
        #expect(try waitUntil { try stage.status(of: "bad").inFlight > 10 })
        try stage.command("RENAME", "bad", "kept")
        try stage.command("SET", "bad", "x")
        #expect(daemon.says("Redis has not responded for 60 % of the lease: sending is paused for bad."))
        let before = stage.simulator.totals.accepted
        try stage.push((2000..<2030).map { pushJob(deviceToken($0)) }, to: "first")
        try stage.push((3000..<3030).map { pushJob(deviceToken($0)) }, to: "last")
        #expect(stage.accepts(before + 60))
        #expect(try waitUntil { try stage.status(of: "first").counters[.sent] == 30 })
        #expect(try waitUntil { try stage.status(of: "last").counters[.sent] == 31 })
        try stage.command("DEL", "bad")
        try stage.command("RENAME", "kept", "bad")
        #expect(stage.accepts(1061, atMost: .seconds(60)))
        #expect(try waitUntil { try ["first", "bad", "last"].allSatisfy { try stage.status(of: $0).inFlight == 0 } })
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
    }

    @Test func `delayed jobs of another program are sent unchanged`() throws {
        let (stage, daemon) = try givenOpen()
        try stage.command("ZADD", stage.keys.delayed, "1", pushJob("0a", data: #"{"aps":{"alert":"a:1|b"}}"#))
        try stage.command("ZADD", stage.keys.delayed, "1", "other:7:2|" + pushJob("0b"))
        try stage.push(pushJob("0c"))
        #expect(stage.accepts(4, atMost: .seconds(60)), "\(daemon.standardError)")
        #expect(try stage.drains())
        #expect(try stage.status().dead == 0)
    }

    @Test func `the daemon continues after FLUSHALL, DEL, RENAME and SCRIPT FLUSH`() throws {
        let (stage, _) = try givenOpen()
        try stage.command("RENAME", stage.keys.stats, "elsewhere")
        try stage.command("DEL", Stage.list)
        try stage.command("SCRIPT", "FLUSH")
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(2))
        try stage.command("FLUSHALL")
        try stage.push(pushJob("0b"))
        #expect(stage.accepts(3))
    }
}
