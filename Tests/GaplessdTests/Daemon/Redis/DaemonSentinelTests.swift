import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Redis by Sentinel", .blocking)
struct DaemonSentinelTests {
    /// A master, which is the stage's own Redis, and its replica.
    private struct Pair {
        let masterPort = FreePort.pick()
        let replicaPort = FreePort.pick()
        let stage: Stage
        let replica: RedisServer

        init() throws {
            stage = try Stage(redis: ["--port", String(masterPort)])
            replica = try RedisServer(options: [
                "--port", String(replicaPort), "--replicaof", "127.0.0.1", String(masterPort), "--repl-diskless-sync-delay", "0",
            ])
        }

        /// Waits until the replica has all data of the master. Returns false at the limit.
        func isInStep() throws -> Bool {
            try waitUntil(atMost: .seconds(60)) { try stage.command("WAIT", "1", "1000").integer == 1 }
        }

        func settings(_ sentinels: [SentinelServer], _ changes: [String: String?] = [:]) -> [String: String?] {
            let addresses = sentinels.map { "\"127.0.0.1:\($0.port)\"" }.joined(separator: ", ")
            return ["redis_socket_path": nil, "redis_sentinels": "[\(addresses)]", "redis_sentinel_master": "\"main\""]
                .merging(changes) { $1 }
        }

        /// Finds the master as the commands do.
        func client(_ sentinels: [SentinelServer]) throws -> RedisClient {
            let endpoints = sentinels.map { Endpoint.tcp(host: "127.0.0.1", port: $0.port) }
            return try RedisClient(settings: QueueSettings(list: Stage.list, server: .sentinels(endpoints, master: "main")))
        }
    }

    /// Sentinel takes some seconds to find the replica, and waits when the machine was busy (TILT): so the long limits.
    @Test func `the daemon follows a killed master to its successor, and every job is delivered`() throws {
        let pair = try Pair()
        let stage = pair.stage
        stage.simulator.behave { $0.script.latency = .milliseconds(1)...(.milliseconds(20)) }
        let sentinel = try SentinelServer(master: "main", at: pair.masterPort)
        let knowsReplica = try waitUntil(atMost: .seconds(60)) {
            var client = try RedisClient(settings: QueueSettings(list: "q", server: .tcp(host: "127.0.0.1", port: sentinel.port)))
            return try client.command(["SENTINEL", "replicas", "main"]).items?.count == 1
        }
        #expect(knowsReplica)
        try stage.push((0..<3000).map { pushJob(deviceToken($0)) })
        #expect(try pair.isInStep())
        let daemon = try stage.start(pair.settings([sentinel], ["apns_max_concurrent_streams": "20"]))
        #expect(stage.accepts(500))
        stage.redis.kill()
        #expect(daemon.says("Redis: "))
        #expect(stage.accepts(3000, atMost: .seconds(120)), "\(daemon.standardError)")
        let settings = stage.folder.file("settings.json")
        let isDrained = try waitUntil(atMost: .seconds(120)) {
            try Call(["status", settings]).output.contains("backlog     0\nin flight   0\ndelayed     0\n")
        }
        #expect(isDrained, "\(daemon.standardError)")
        #expect(Set(stage.simulator.ledger.entries.map(\.token)).count == 3000)
        let audit = try Call(["audit", settings])
        // The replica may have lacked the last writes.
        let sentences = ["balances", "Redis was put back to an earlier state"]
        #expect(audit.status == 0 && sentences.contains { audit.output.contains($0) }, "\(audit.output)")
        var client = try pair.client([sentinel])
        #expect(try client.command(["ROLE"]).items?.first?.text == "master")
        #expect(try client.command(["INFO", "replication"]).text?.contains("role:master") == true)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `the daemon asks the next Sentinel if the named master is a replica`() throws {
        let pair = try Pair()
        #expect(try pair.isInStep())
        // With a quorum of two, a single Sentinel changes nothing.
        let wrong = try SentinelServer(master: "main", at: pair.replicaPort, quorum: 2)
        let right = try SentinelServer(master: "main", at: pair.masterPort, quorum: 2)
        let daemon = try pair.stage.start(pair.settings([wrong, right]))
        try pair.stage.push(pushJob("0a"))
        #expect(pair.stage.accepts(1), "\(daemon.standardError)")
        #expect(daemon.says("is the master according to Sentinel, but reports the role replica"))
        #expect(daemon.says("Connected to Redis at 127.0.0.1:\(pair.masterPort), list \(Stage.list)."))
        let settings = pair.stage.folder.file("settings.json")
        #expect(try Call(["status", settings]).status == 0)
        #expect(daemon.stop()?.status == 0)
        let alone = try pair.stage.write(pair.settings([wrong]))
        let call = try Call(["status", alone])
        #expect(call.status == 69)
        #expect(
            call.errors.contains(
                "127.0.0.1:\(pair.replicaPort) is the master according to Sentinel, but reports the role replica"))
    }

    @Test func `the daemon keeps the last master while no Sentinel replies`() throws {
        let pair = try Pair()
        let sentinel = try SentinelServer(master: "main", at: pair.masterPort)
        let daemon = try pair.stage.start(pair.settings([sentinel]))
        try pair.stage.open(daemon)
        sentinel.kill()
        try pair.stage.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        try pair.stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(pair.stage.accepts(101), "\(daemon.standardError)")
        let call = try Call(["status", pair.stage.folder.file("settings.json")])
        #expect(call.status == 69)
        #expect(call.errors.contains("no Sentinel names a master for \"main\" (127.0.0.1:\(sentinel.port): "), "\(call.errors)")
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a daemon waits for its Sentinel, but not with a wrong master name`() throws {
        let pair = try Pair()
        let sentinel = try SentinelServer(master: "main", at: pair.masterPort)
        sentinel.kill()
        try pair.stage.push(pushJob("0a"))
        let daemon = try pair.stage.start(pair.settings([sentinel]))
        #expect(daemon.says("no Sentinel names a master for \"main\""))
        try sentinel.restart()
        #expect(pair.stage.accepts(1), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
        let misnamed = try pair.stage.start(pair.settings([sentinel], ["redis_sentinel_master": "\"other\""]))
        #expect(misnamed.exitStatus() == 78)
        #expect(
            misnamed.standardError.contains(
                "redis_sentinel_master: no Sentinel names a master for \"other\" "
                    + "(127.0.0.1:\(sentinel.port): this Sentinel does not know the master)"
            ))
        // A Redis instead of a Sentinel.
        let noSentinel = try pair.stage.start(pair.settings([], ["redis_sentinels": "[\"127.0.0.1:\(pair.masterPort)\"]"]))
        #expect(noSentinel.exitStatus() == 78)
        #expect(
            noSentinel.standardError.contains("redis_sentinels: no Sentinel names a master for "), "\(noSentinel.standardError)")
    }

    @Test func `Sentinels that require a password get that of Redis, others get none`() throws {
        let pair = try Pair()
        let open = try SentinelServer(master: "main", at: pair.masterPort)
        let closed = try SentinelServer(
            master: "main", at: pair.masterPort, lines: ["requirepass pw-5417", "sentinel auth-pass main pw-5417"])
        try pair.stage.command("CONFIG", "SET", "requirepass", "pw-5417")
        for sentinels in [[closed], [open]] {
            let settings = try pair.stage.write(pair.settings(sentinels, ["redis_password": "\"pw-5417\""]))
            let call = try Call(["status", settings])
            #expect(call.status == 0, "\(call.errors)")
        }
        // A user needs the right for ROLE.
        try pair.stage.command("CONFIG", "SET", "requirepass", "")
        for (right, status) in [("-role", CInt(78)), ("+role", 0)] {
            try pair.stage.command("ACL", "SETUSER", "pusher", "on", ">pw-5417", "~*", "+@all", right)
            let changes: [String: String?] = ["redis_username": "\"pusher\"", "redis_password": "\"pw-5417\""]
            let call = try Call(["status", try pair.stage.write(pair.settings([open], changes))])
            #expect(call.status == status)
            #expect(call.errors.contains("'role'") == (status == 78), "\(call.errors)")
        }
        let wrong = try Call(["status", try pair.stage.write(pair.settings([closed], ["redis_password": "\"wrong-5417\""]))])
        #expect(wrong.status == 78)
        #expect(wrong.errors.contains("AUTH was refused (WRONGPASS): wrong user name or password?"), "\(wrong.errors)")
        #expect(!wrong.errors.contains("5417"))
    }

    @Test func `Sentinels with a password of their own get it, and an error about it names its key`() throws {
        let pair = try Pair()
        let closed = try SentinelServer(master: "main", at: pair.masterPort, lines: ["requirepass pw-5417"])
        func status(_ changes: [String: String?]) throws -> Call {
            try Call(["status", try pair.stage.write(pair.settings([closed], changes))])
        }
        let missing = try status([:])
        #expect(missing.status == 78)
        #expect(missing.errors.contains("redis_sentinel_password: required key is missing: "), "\(missing.errors)")
        let wrong = try status(["redis_password": "\"other-5417\""])
        #expect(wrong.status == 78)
        #expect(wrong.errors.contains("redis_sentinel_password: "), "\(wrong.errors)")
        #expect(wrong.errors.contains("AUTH was refused (WRONGPASS)"), "\(wrong.errors)")
        let right = try status(["redis_sentinel_password": "\"pw-5417\""])
        #expect(right.status == 0, "\(right.errors)")
        let named = try status(["redis_sentinel_username": "\"default\"", "redis_sentinel_password": "\"pw-5417\""])
        #expect(named.status == 0, "\(named.errors)")
        let daemon = try pair.stage.start(pair.settings([closed], ["redis_sentinel_password": "\"pw-5417\""]))
        try pair.stage.push(pushJob("0a"))
        #expect(pair.stage.accepts(1), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
        for text in [missing.errors, wrong.errors, daemon.standardError] { #expect(!text.contains("5417")) }
    }

    @Test func `a password that was changed by a reload is used for Sentinels, too`() throws {
        let pair = try Pair()
        let sentinel = try SentinelServer(master: "main", at: pair.masterPort, lines: ["requirepass pw-1"])
        try pair.stage.command("CONFIG", "SET", "requirepass", "pw-1")
        let daemon = try pair.stage.start(pair.settings([sentinel], ["redis_password": "\"pw-1\""]))
        try pair.stage.push(pushJob("0a"))
        #expect(pair.stage.accepts(1))
        _ = try pair.replica.command(["REPLICAOF", "NO", "ONE"])
        _ = try pair.replica.command(["RPUSH", Stage.list, pushJob("0b")])
        _ = try pair.replica.command(["CONFIG", "SET", "requirepass", "pw-2"])
        var monitor = try RedisClient(
            settings: QueueSettings(list: "q", server: .tcp(host: "127.0.0.1", port: sentinel.port), password: "pw-1"))
        _ = try monitor.command(["SENTINEL", "REMOVE", "main"])
        _ = try monitor.command(["SENTINEL", "MONITOR", "main", "127.0.0.1", "\(pair.replicaPort)", "1"])
        _ = try monitor.command(["ACL", "SETUSER", "default", "resetpass", ">pw-2"])
        _ = try pair.stage.write(pair.settings([sentinel], ["redis_password": "\"pw-2\""]))
        #expect(daemon.reloads())
        pair.stage.redis.kill()
        #expect(pair.stage.accepts(2), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `TLS to Sentinel and to the master is verified`() throws {
        let secure = try SecureRedis()
        let stage = try Stage(redis: secure.options)
        let port = FreePort.pick()
        let sentinel = try SentinelServer(
            master: "main", at: secure.port,
            lines: secure.options(port: port, for: "tls-replication").pairs.map { "\($0.dropFirst(2)) \($1)" })
        let changes: [String: String?] = [
            "redis_host": nil, "redis_port": nil, "redis_sentinels": "[\"localhost:\(port)\"]",
            "redis_sentinel_master": "\"main\"",
        ]
        let daemon = try stage.start(secure.settings(changes))
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1), "\(daemon.standardError)")
        #expect(daemon.stop()?.status == 0)
        let call = try Call(["status", stage.folder.file("settings.json")])
        #expect(call.status == 0, "\(call.errors)")
        withExtendedLifetime(sentinel) {}
    }
}
