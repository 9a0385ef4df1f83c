import APNSSimulator
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd check", .timeLimit(.minutes(30)))
struct CommandCheckTests {
    private let folder = TemporaryFolder()

    /// Writes settings that use the simulator's credentials, in their folder.
    private func write(server: String, redis: String, _ members: String = "") throws -> String {
        let file = folder.file("settings.json")
        try File.write(
            """
            {"apns_server": "\(server)", "apns_ca_path": "ca.pem", "apns_cert_path": "client.pem",
             "apns_key_path": "client-key.pem",
             "redis_queue_key": ["high", "low"], "redis_socket_path": "\(redis)", \(members)
             "apps": {"key": {"apns_auth_key_path": "AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001",
                              "apns_team_id": "SIMTEAM001"}}}
            """, to: file)
        return file
    }

    private func simulator() throws -> Simulator {
        let credentials = try Credentials.make()
        _ = try credentials.write(to: folder.path)
        return try Simulator(Simulator.Configuration(credentials: credentials))
    }

    @Test func `--offline prints every app and that the settings are valid`() throws {
        _ = try Credentials.make(Credentials.Request(topics: ["com.example.app", "com.example.app.voip"])).write(to: folder.path)
        let file = try write(server: "sandbox", redis: "/nowhere")
        let call = try Call(["check", "--offline", file])
        #expect(call.status == 0)
        let lines = call.output.split(separator: "\n").map(String.init)
        #expect(lines.last == "settings: ok")
        #expect(lines.contains("redis       unix:/nowhere, database 0, at least once"))
        #expect(lines.contains("lists       high, low"))
        #expect(lines.contains("retries     3, after 1, 60, 900 s"))
        #expect(lines.contains("app         (top level)"))
        #expect(lines.contains("server      api.sandbox.push.apple.com:443, 2 sessions"))
        #expect(lines.contains { $0.hasPrefix("topics      com.example.app, com.example.app.voip") })
        #expect(lines.contains("topic       com.example.app"))
        #expect(lines.contains { $0.hasPrefix("expires     in 82") })
        #expect(lines.contains("app         key"))
        #expect(lines.contains("credential  signing key SIMKEY0001 of team SIMTEAM001"))
        #expect(lines.contains("topic       set by each job"))
        #expect(call.errors == "warning: \(file): apps.key.apns_topic: no default topic; each job must name its topic\n")
        #expect(!call.output.contains("PRIVATE"))
    }

    @Test(arguments: [["check", "--offline"], ["check", "--effective"], ["run"]])
    func `The text of a key in every path key is printed by no call`(call: [String]) throws {
        _ = try Credentials.make().write(to: folder.path)
        let key = File.read(folder.file("AuthKey_SIMKEY0001.p8"))
        let secret = key.split(separator: "\n")[1]
        let members = SettingsTable.keys.compactMap { setting in
            setting.traits.namesFile ? setting.name : setting.fileName
        }.map { "\"\($0)\": \"\(key.replacing("\n", with: "\\n"))\"" }
        let file = folder.file("settings.json")
        try File.write(
            #"{"apns_server": "sandbox", "redis_queue_key": "q", "redis_tls": true, \#(members.joined(separator: ", "))}"#,
            to: file)
        let result = try Call(call + [file])
        #expect(result.status == 78)
        #expect(result.errors.split(separator: "\n").count >= members.count)
        for text in [result.output, result.errors] {
            #expect(!text.contains(secret.prefix(20)) && !text.contains("BEGIN"), "\(call): \(text.count) bytes")
        }
    }

    @Test func `One session is printed in the singular`() throws {
        _ = try Credentials.make().write(to: folder.path)
        let call = try Call(["check", "--offline", try write(server: "sandbox", redis: "/nowhere", #""pool_size": 1,"#)])
        #expect(call.output.contains("server      api.sandbox.push.apple.com:443, 1 session\n"))
    }

    @Test func `Connects to Redis and opens a session for each app`() throws {
        let (simulator, redis) = (try simulator(), try RedisServer())
        defer { simulator.stop() }
        let call = try Call(["check", try write(server: "localhost:\(simulator.port)", redis: redis.socketPath)])
        #expect(call.status == 0, "\(call.errors)")
        #expect(call.output.contains("\nredis: ok, unix:\(redis.socketPath), Redis "))
        #expect(call.output.contains("\napns: ok, "))
        #expect(call.output.contains("\napns key: ok, "))
    }

    @Test func `A service that does not respond exits with 69, after the other checks`() throws {
        let simulator = try simulator()
        defer { simulator.stop() }
        let file = try write(server: "localhost:\(simulator.port)", redis: folder.file("none.sock"))
        let call = try Call(["check", file])
        #expect(call.status == 69)
        #expect(call.errors.contains("redis: no response: unix:\(folder.file("none.sock"))"))
        #expect(call.output.contains("\napns: ok, "))
    }

    @Test func `An untrusted server certificate exits with 69 and names the keys to check`() throws {
        let redis = try RedisServer()
        let simulator = try simulator()
        defer { simulator.stop() }
        _ = try Credentials.make().write(to: folder.path)
        let call = try Call(["check", try write(server: "localhost:\(simulator.port)", redis: redis.socketPath)])
        #expect(call.status == 69)
        #expect(call.errors.contains("apns: failed: "))
        #expect(call.errors.contains("the server's certificate is not trusted: "))
        #expect(call.errors.contains("; check apns_ca_path and apns_server\n"))
    }

    @Test func `A wrong Redis password exits with 78 and is not printed`() throws {
        let simulator = try simulator()
        defer { simulator.stop() }
        let redis = try RedisServer()
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: redis.socketPath)))
        _ = try client.command(["CONFIG", "SET", "requirepass", "right"])
        let file = try write(server: "localhost:\(simulator.port)", redis: redis.socketPath, #""redis_password": "hunter2","#)
        let call = try Call(["check", file])
        #expect(call.status == 78)
        #expect(call.errors.contains("redis: refused: "))
        #expect(!(call.errors + call.output).contains("hunter2"))
    }

    @Test(arguments: ["delayed", "dead", "feedback", "stats", "workers", "recovered:2"])
    func `A key of a wrong type beside the list exits with 78 and is named with its setting`(name: String) throws {
        let simulator = try simulator()
        defer { simulator.stop() }
        let redis = try RedisServer()
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: redis.socketPath)))
        _ = try client.command(["SET", "{low}:gapless:\(name)", "x"])
        let call = try Call(["check", try write(server: "localhost:\(simulator.port)", redis: redis.socketPath)])
        #expect(call.status == 78)
        #expect(
            call.errors.contains(
                "redis: refused: unix:\(redis.socketPath): redis_queue_key: the key {low}:gapless:\(name) is a string, not a "),
            "\(call.errors)")
    }

    @Test func `A key that is not a list exits with 78`() throws {
        let simulator = try simulator()
        defer { simulator.stop() }
        let redis = try RedisServer()
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: redis.socketPath)))
        _ = try client.command(["SET", "low", "x"])
        let call = try Call(["check", try write(server: "localhost:\(simulator.port)", redis: redis.socketPath)])
        #expect(call.status == 78)
        #expect(
            call.errors.contains(
                "redis: refused: unix:\(redis.socketPath): redis_queue_key: "
                    + "the key low is a string, not a list; expected another key "))
    }

    @Test func `A full Redis without eviction exits with 69`() throws {
        let simulator = try simulator()
        defer { simulator.stop() }
        let redis = try RedisServer()
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: redis.socketPath)))
        _ = try client.command(["CONFIG", "SET", "maxmemory", "1mb"])
        let file = try write(server: "localhost:\(simulator.port)", redis: redis.socketPath)
        for right in ["+multi", "-multi"] {
            _ = try client.command(["ACL", "SETUSER", "default", right])
            let call = try Call(["check", file])
            #expect(call.status == 69)
            #expect(call.errors.contains("redis: failed: unix:\(redis.socketPath): OOM command not allowed"), "\(call.errors)")
            #expect(call.errors.contains("No producer can push; expected a larger maxmemory\n"), "\(call.errors)")
        }
    }

    @Test(arguments: [
        ("192.0.2.1:9464", "Cannot assign requested address"), ("nowhere.invalid:9464", "cannot resolve nowhere.invalid: "),
    ])
    func `An address that cannot be bound exits with 78, as for the daemon`(address: String, why: String) throws {
        let (simulator, redis) = (try simulator(), try RedisServer())
        defer { simulator.stop() }
        let file = try write(server: "localhost:\(simulator.port)", redis: redis.socketPath, #""metrics_listen": "\#(address)","#)
        let call = try Call(["check", file])
        #expect(call.status == 78)
        #expect(call.errors.contains("metrics: refused: metrics_listen: cannot listen at \(address): \(why)"), "\(call.errors)")
        #expect(call.errors.contains("; expected an address of this machine with a free port, or port 0\n"))
        let daemon = try Call([file])
        #expect(daemon.status == 78)
        #expect(daemon.errors.contains("metrics_listen: cannot listen at \(address): "), "\(daemon.errors)")
        #expect(try Call(["check", "--offline", file]).status == 0)
    }

    @Test func `A port that a running gaplessd has bound is accepted`() throws {
        let stage = try Stage()
        let listens: [String: String?] = ["metrics_listen": "\"127.0.0.1:\(FreePort.pick())\""]
        let daemon = try stage.start(listens)
        #expect(waitUntil { daemon.hasStarted })
        let call = try Call(["check", stage.folder.file("settings.json")])
        #expect(call.status == 0, "\(call.errors)")
        #expect(call.output.contains(", bound by a running gaplessd\n"), "\(call.output)")
        #expect(daemon.stop()?.status == 0)
    }

    @Test(arguments: [
        ConnectProxy.Behaviour.silent, .close, .respond("rubbish\n"), .respond("HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\nok\n"),
        .respond("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n"),
        .respond("HTTP/1.1 404 Not Found\r\nServer: gaplessd\r\n\r\n"),
    ])
    func `A port that another program has bound exits with 78, as for the daemon`(manner: ConnectProxy.Behaviour) throws {
        let (simulator, redis) = (try simulator(), try RedisServer())
        defer { simulator.stop() }
        let other = try ConnectProxy(manner)
        let members = #""metrics_listen": "127.0.0.1:\#(other.port)","#
        let file = try write(server: "localhost:\(simulator.port)", redis: redis.socketPath, members)
        let call = try Call(["check", file])
        #expect(call.status == 78)
        #expect(
            call.errors.contains(
                """
                metrics: refused: metrics_listen: cannot listen at 127.0.0.1:\(other.port): Address already in use by another \
                program; expected an address of this machine with a free port, or port 0\n
                """), "\(call.errors)")
        #expect(try Call([file]).status == 78)
    }

    @Test
    func
        `A folder that cannot store provider tokens causes one warning; a usable folder stays empty`()
        throws
    {
        let (simulator, redis) = (try simulator(), try RedisServer())
        defer { simulator.stop() }
        let file = try write(server: "localhost:\(simulator.port)", redis: redis.socketPath)
        try File.write("", to: folder.file("a file"))
        for place in ["/proc/nowhere", folder.file("a file"), folder.file("a file") + "/in/it"] {
            let warnings = try [["check", "--offline"], ["check"]].map { arguments in
                let call = try Call(arguments + [file], environment: ["STATE_DIRECTORY": place])
                #expect(call.status == 0)
                return call.errors.split(separator: "\n").filter {
                    $0.hasPrefix("warning: The provider token of the key SIMKEY0001 cannot be kept")
                }
            }
            #expect(warnings.map(\.count) == [1, 1] && warnings[0] == warnings[1], "\(warnings)")
        }
        let state = folder.file("new/state")
        #expect(
            !(try Call(["check", "--offline", file], environment: ["STATE_DIRECTORY": state])).errors.contains("cannot be kept"))
        #expect(folderEntries(folder.path).contains("new") == false)
    }
}
