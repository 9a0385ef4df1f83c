import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@testable import gaplessd

@Suite("gaplessd check", .timeLimit(.minutes(30)))
final class CommandCheckTests {
    private let folder = TemporaryFolder()
    private let redis: RedisServer
    private var simulator: Simulator?

    init() throws { redis = try RedisServer() }

    deinit { simulator?.stop() }

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

    /// Writes settings for Redis and a new simulator, which has the credentials in the folder.
    private func writeWithServers(_ members: String = "", redis path: String? = nil) throws -> String {
        let credentials = try Credentials.make()
        _ = try credentials.write(to: folder.path)
        let simulator = try Simulator(Simulator.Configuration(credentials: credentials))
        self.simulator = simulator
        return try write(server: "localhost:\(simulator.port)", redis: path ?? redis.socketPath, members)
    }

    private func ask(_ words: String...) throws {
        var client = try RedisClient(settings: QueueSettings(list: "q", server: .unix(path: redis.socketPath)))
        _ = try client.command(words)
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

    @Test(arguments: [
        ["check", "--offline"], ["check", "--effective"], ["check"], ["run"], [], ["status"], ["relay"],
        ["send", "--token", "ab", "--alert", "x"],
    ])
    func `The text of a key in every path key is printed by no call`(call: [String]) throws {
        _ = try Credentials.make().write(to: folder.path)
        let key = File.read(folder.file("AuthKey_SIMKEY0001.p8"))
        let secret = key.split(separator: "\n")[1]
        let members = SettingsTable.keys.compactMap { setting in
            setting.traits.namesFile ? [setting.name] : [setting.fileName, setting.variableName].compactMap(\.self)
        }.joined().map { "\"\($0)\": \"\(key.replacing("\n", with: "\\n"))\"" }
        let file = folder.file("settings.json")
        try File.write(
            #"{"apns_server": "sandbox", "redis_queue_key": "q", "redis_tls": true, \#(members.joined(separator: ", "))}"#,
            to: file)
        let result = try Call(call + [file])
        #expect(result.status == 78)
        #expect(result.errors.matches(of: /the value is the key or the certificate itself \(hidden\)/).count >= 16)
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
        let call = try Call(["check", try writeWithServers()])
        #expect(call.status == 0, "\(call.errors)")
        #expect(call.output.contains("\nredis: ok, unix:\(redis.socketPath), Redis "))
        #expect(call.output.contains("\napns: ok, "))
        #expect(call.output.contains("\napns key: ok, "))
        #expect(call.output.hasSuffix("use 'gaplessd check --prove'\n"))
        #expect(!call.output.contains(" has 1 job"))
    }

    @Test func `A list with the prefix of a framework is named if the list of the settings is empty`() throws {
        let file = try writeWithServers()
        for list in ["laravel_database_low", "unlow", "{low}:gapless:low", "app_high", "high"] {
            try ask("RPUSH", list, "{}")
        }
        try ask("SET", "cache_low", "a string")
        let call = try Call(["check", file])
        #expect(call.status == 0, "\(call.errors)")
        let line = call.output.split(separator: "\n").first { $0.hasPrefix("redis: ok") } ?? ""
        #expect(
            line.hasSuffix(
                #"; the list "low" is empty, and "laravel_database_low" has 1 job: does the producer's library add a prefix? "#
                    + #"Then set redis_queue_key to "laravel_database_low""#), "\(line)")
        #expect(!line.contains("app_high"))
    }

    @Test func `An estimate is not beyond what Redis and the daemon carry`() {
        #expect(
            APNSProbe.words([("a", 300_000), ("b", 1234)]).hasPrefix(
                "250,000 pushes/s of a, 1,200 pushes/s of b (at most 250,000, "))
        #expect(APNSProbe.words([("a", 1e300)]).hasPrefix("250,000 pushes/s of a (at most"))
        #expect(APNSProbe.words([("a", 1000)]) == "1,000 pushes/s of a")
    }

    @Test(.enabled(if: geteuid() == 0, "only root has the files of others"))
    func `Root learns which files the user of the service cannot read`() throws {
        _ = try Credentials.make().write(to: folder.path)
        let state = folder.file("state")
        #expect(mkdir(state, 0o700) == 0 && chown(state, 12_345, 12_345) == 0)
        let file = try write(server: "sandbox", redis: "/nowhere")
        for path in [folder.path, file] { #expect(chmod(path, 0o755) == 0) }
        let key = folder.file("AuthKey_SIMKEY0001.p8")
        func warnings(_ mode: mode_t, _ environment: [String: String] = [:]) throws -> [Substring] {
            #expect(chmod(key, mode) == 0)
            let call = try Call(
                ["check", "--offline", file], environment: environment.merging(["STATE_DIRECTORY": state]) { $1 })
            #expect(call.status == 0)
            return call.errors.split(separator: "\n").filter { $0.hasPrefix("warning: \(key) ") }
        }
        let sentence = "warning: \(key) is readable for root, but not for the service user with the id 12345"
        #expect(try warnings(0o600).map { $0.hasPrefix(sentence) } == [true])
        #expect(try warnings(0o644).isEmpty == canPass(folder.path))
        #expect(try warnings(0o600, ["CREDENTIALS_DIRECTORY": folder.path]).isEmpty)
        #expect(chown(key, 12_345, 0) == 0)
        #expect(try warnings(0o600).isEmpty == canPass(folder.path))
    }

    /// Whether every user may pass the folders above a file.
    private func canPass(_ path: String) -> Bool {
        var folder = ""
        return path.split(separator: "/").allSatisfy { part in
            folder += "/\(part)"
            var facts = stat()
            return stat(folder, &facts) == 0 && facts.st_mode & 1 != 0
        }
    }

    @Test func `A service that does not respond exits with 69, after the other checks`() throws {
        let file = try writeWithServers(redis: folder.file("none.sock"))
        let call = try Call(["check", file])
        #expect(call.status == 69)
        #expect(call.errors.contains("redis: no response: unix:\(folder.file("none.sock"))"))
        #expect(call.output.contains("\napns: ok, "))
        simulator?.stop()
        #expect(try Call(["check", file]).errors.contains("\napns: no response: "))
    }

    @Test func `An untrusted server certificate exits with 69 and names the keys to check`() throws {
        let file = try writeWithServers()
        _ = try Credentials.make().write(to: folder.path)
        let call = try Call(["check", file])
        #expect(call.status == 69)
        #expect(call.errors.contains("apns: failed: "))
        #expect(call.errors.contains("the server's certificate is not trusted: "))
        #expect(call.errors.contains("; check apns_ca_path and apns_server\n"))
    }

    @Test func `A wrong Redis password exits with 78 and is not printed`() throws {
        try ask("CONFIG", "SET", "requirepass", "right")
        let file = try writeWithServers(#""redis_password": "hunter2","#)
        let call = try Call(["check", file])
        #expect(call.status == 78)
        #expect(call.errors.contains("redis: refused: "))
        #expect(!(call.errors + call.output).contains("hunter2"))
    }

    @Test(arguments: ["delayed", "dead", "feedback", "stats", "workers", "recovered:2"])
    func `A key of a wrong type beside the list exits with 78 and is named with its setting`(name: String) throws {
        try ask("SET", "{low}:gapless:\(name)", "x")
        let call = try Call(["check", try writeWithServers()])
        #expect(call.status == 78)
        #expect(
            call.errors.contains(
                "redis: refused: unix:\(redis.socketPath): redis_queue_key: the key {low}:gapless:\(name) is a string, not a "),
            "\(call.errors)")
    }

    @Test func `A key that is not a list exits with 78`() throws {
        try ask("SET", "low", "x")
        let call = try Call(["check", try writeWithServers()])
        #expect(call.status == 78)
        #expect(
            call.errors.contains(
                "redis: refused: unix:\(redis.socketPath): redis_queue_key: "
                    + "the key low is a string, not a list; expected another key "))
    }

    @Test func `A full Redis without eviction exits with 69`() throws {
        try ask("CONFIG", "SET", "maxmemory", "1mb")
        let file = try writeWithServers()
        for right in ["+multi", "-multi"] {
            try ask("ACL", "SETUSER", "default", right)
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
        let file = try writeWithServers(#""metrics_listen": "\#(address)","#)
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
        let other = try ConnectProxy(manner)
        let members = #""metrics_listen": "127.0.0.1:\#(other.port)","#
        let file = try writeWithServers(members)
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
        let file = try writeWithServers()
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
