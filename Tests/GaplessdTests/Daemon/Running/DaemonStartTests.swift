import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("The start of a daemon", .blocking)
struct DaemonStartTests {
    private let folder = TemporaryFolder()

    @Test func `paths expand variables and are relative to the settings file`() throws {
        let stage = try Stage()
        let settings = try stage.write(["apns_auth_key_path": "\"${CREDENTIALS_DIRECTORY}/AuthKey_SIMKEY0001.p8\""])
        let daemon = try ChildProcess(
            BuiltProducts.path("gaplessd"), ["run", settings],
            environment: [
                "CREDENTIALS_DIRECTORY": stage.folder.file("credentials"), "STATE_DIRECTORY": stage.folder.file("state"),
            ])
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
        daemon.kill(SIGTERM)
        #expect(daemon.wait(atMost: .seconds(10))?.status == 0)
    }

    @Test func `signals work from the first moment`() throws {
        let settings = folder.file("settings.fifo")
        #expect(mkfifo(settings, 0o600) == 0)
        let daemon = try ChildProcess(BuiltProducts.path("gaplessd"), [settings])
        // `open` returns when the daemon has opened the other end and waits.
        let pipe = open(settings, O_WRONLY)
        defer { close(pipe) }
        for signal in [SIGHUP, SIGUSR1, SIGTERM] { daemon.kill(signal) }
        #expect(daemon.wait(atMost: .seconds(10))?.status == 0)
    }

    @Test func `settings may be a pipe, and a pipe without a writer is a fault`() throws {
        let settings = folder.file("settings.fifo")
        #expect(mkfifo(settings, 0o600) == 0)
        let fault = try Call(["check", "--offline", settings])
        #expect(fault.status == 78)
        #expect(fault.errors.contains("no data within 2.0 seconds"), "\(fault.errors)")
        let stage = try Stage()
        let piped = try Call(
            ["check", "--offline", settings],
            under: ["sh", "-c", "cat \"$0\" > \"$1\" & shift && exec \"$@\"", stage.write(), settings])
        #expect(piped.status == 78 && piped.errors.contains("apns_auth_key_path"), "\(piped.errors)")
    }

    @Test func `Redis shows the running worker, and none after its stop`() throws {
        let (stage, daemon) = try givenOpen()
        let worker = try #require(try stage.status().workers.first)
        #expect(worker.details["pid"] == "\(daemon.process.pid)")
        #expect(worker.details["host"]?.isEmpty == false)
        #expect(worker.details["version"]?.isEmpty == false)
        let started = try #require(worker.details["started"].flatMap { Int64($0) })
        #expect(abs(unixTime() - started) < 60)
        #expect(try stage.command("TYPE", stage.keys.workers).text == "zset")
        #expect(try stage.command("TYPE", stage.keys.worker(worker.name)).text == "hash")
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().workers.isEmpty)
        #expect(daemon.standardError.split(separator: "\n").allSatisfy { $0.contains("append-only") })
    }
}

@Suite("Files of the original Gapless", .blocking)
struct DaemonLegacyTests {
    /// The sample settings of the original, except for the address of Redis.
    private static func sample(server: String, more: String = "") -> String {
        """
        {"apns_cert_path": "beta_cert.pem", "apns_key_path": "beta_key.pem", "apns_server": "\(server)", "log_successes": true, \
        "pool_size": 2, "redis_db": 0, "redis_host": "127.0.0.1", "redis_port": 6379, "redis_queue_key": "beta_apns_queue"\(more)}
        """
    }

    private static func prepare(_ stage: Stage) throws {
        for (name, copy) in [("client.pem", "beta_cert.pem"), ("client-key.pem", "beta_key.pem"), ("ca.pem", "ca.pem")] {
            try File.write(File.read(stage.folder.file("credentials/\(name)")), to: stage.folder.file(copy))
        }
    }

    @Test func `the sample settings are valid, with one warning`() throws {
        let stage = try Stage(topics: ["com.example.beta"])
        try Self.prepare(stage)
        let path = stage.folder.file("beta.json")
        try File.write(Self.sample(server: "gateway.sandbox.push.apple.com:2195"), to: path)
        let check = try Call(["check", path, "--offline"])
        #expect(check.status == 0)
        #expect(check.output.contains("com.example.beta"))
        let warnings = check.errors.split(separator: "\n")
        #expect(warnings.count == 1, "\(warnings)")
        #expect(warnings.first?.contains("api.sandbox.push.apple.com") == true)
        #expect(warnings.first?.contains("gateway.sandbox.push.apple.com:2195") == true)
    }

    @Test func `they push with the topic of the certificate and without a provider token`() throws {
        let port = FreePort.pick()
        let stage = try Stage(redis: ["--port", "\(port)"], topics: ["com.example.beta"]) {
            $0.authentication = .certificate
        }
        try Self.prepare(stage)
        let path = stage.folder.file("beta.json")
        let sample = Self.sample(server: "localhost:\(stage.simulator.port)", more: #", "apns_ca_path": "ca.pem""#)
        // The port of the simulator may contain the same digits.
        try File.write(sample.replacing(#""redis_port": 6379"#, with: #""redis_port": \#(port)"#), to: path)
        let daemon = try DaemonProcess(settings: path, folder: TemporaryFolder())
        let job = #"{"token": "\#(deviceToken(1))", "identifier": 154, "expiry": 3600, "data": {"aps": {"alert": "Hi"}}}"#
        try stage.push([job, pushJob(deviceToken(2))])
        #expect(stage.accepts(2), "\(daemon.standardError)")
        #expect(waitUntil { stage.simulator.totals.connections == 2 }, "pool_size")
        #expect(stage.simulator.ledger.entries.allSatisfy { $0.topic == nil || $0.topic == "com.example.beta" })
        #expect(try stage.drains())
        #expect(daemon.stop()?.status == 0)
        #expect(daemon.reports.contains("[Gapless I] STAMP Sent: \(job)."))
        let lifetime = try #require(stage.simulator.ledger.requests(for: deviceToken(1)).first?.expiration.flatMap { Int64($0) })
        #expect(abs(lifetime - unixTime() - 3600) < 30)
    }

    @Test(arguments: ["unix:SOCKET", "tcp:127.0.0.1:PORT", "127.0.0.1:PORT"])
    func `redis_netaddress and redis_db are the address of the list`(address: String) throws {
        let port = FreePort.pick()
        let stage = try Stage(redis: ["--port", "\(port)"])
        let place = address.replacing("SOCKET", with: stage.redis.socketPath).replacing("PORT", with: "\(port)")
        try stage.start(["redis_socket_path": nil, "redis_netaddress": "\"\(place)\"", "redis_db": "3"])
        try stage.command("SELECT", "3")
        try stage.push(pushJob("0a"))
        #expect(try stage.settles(1))
    }

    @Test func `a PKCS#12 file works, with its password from a file`() throws {
        let stage = try Stage(topics: ["com.example.beta"]) { $0.authentication = .certificate }
        try File.write("simulator\n", to: stage.folder.file("p12-password"))
        let p12 = ["apns_p12_path": "\"credentials/client.p12\"", "apns_p12_password_file": "\"p12-password\""]
        try stage.start(noCredential.merging(p12) { $1 })
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
    }
}

@Suite("A system without free threads", .blocking)
struct DaemonThreadTests {
    /// The log, the side channel and each pool have a thread from the start.
    @Test(arguments: [0: "log", 1: "side channel", 2: "apns pool"])
    func `a daemon that cannot start exits, and claims nothing`(left: Int, name: String) throws {
        let stage = try Stage()
        try stage.push(pushJob("0a"))
        let limit = try ThreadLimit(left)
        let daemon = try stage.start(under: limit.wrapper)
        #expect(daemon.exitStatus() == 1)
        #expect(
            daemon.standardError.contains("no thread for \"\(name)\": Resource temporarily unavailable"),
            "\(daemon.standardError)")
        #expect(try stage.status().backlog == 1)
    }

    @Test func `a call with few descriptors fails with a message`() throws {
        let folder = TemporaryFolder()
        try Credentials.make().write(to: folder.path)
        let settings = try CallStage.write(
            ["apns_auth_key_path": "AuthKey_SIMKEY0001.p8".quoted, "redis_socket_path": folder.file("none").quoted],
            to: folder.file("settings.json"))
        for (limit, arguments) in (4...12).flatMap({ [($0, ["check"]), ($0, ["send", "--token", "ab", "--alert", "x"])] }) {
            let call = try Call(
                arguments + [settings], under: ["sh", "-c", "ulimit -n \(limit) && exec \"$0\" \"$@\""])
            #expect([1, 69, 78].contains(call.status) && !call.errors.isEmpty, "\(limit) \(arguments): \(call)")
        }
    }

    /// Below the first limit the program cannot be loaded; with the last ones it starts, and finds no Redis.
    @Test func `a daemon with few descriptors starts, or exits with a message`() throws {
        let folder = TemporaryFolder()
        try Credentials.make().write(to: folder.path)
        let settings = try CallStage.write(
            [
                "apns_auth_key_path": "AuthKey_SIMKEY0001.p8".quoted, "redis_socket_path": folder.file("none").quoted,
                "metrics_listen": "\"127.0.0.1:0\"",
            ], lists: ["a", "b"], to: folder.file("settings.json"))
        var starts = 0
        for limit in 4...40 {
            let daemon = try DaemonProcess(
                settings: settings, folder: folder, name: "\(limit)",
                under: ["sh", "-c", "ulimit -n \(limit) && exec \"$0\" \"$@\""])
            _ = waitUntil { daemon.hasStarted || daemon.process.poll() != nil }
            if daemon.hasStarted { starts += 1 }
            let exit = daemon.stop()
            #expect(
                daemon.hasStarted ? exit?.status == 0 : [1, 78].contains(exit?.status) && !daemon.standardError.isEmpty,
                "\(limit): \(String(describing: exit)) \(daemon.standardError)")
        }
        #expect(1...30 ~= starts)
    }

    @Test func `metrics without a thread are a settings fault`() throws {
        let stage = try Stage()
        let limit = try ThreadLimit(1)
        let daemon = try stage.start(["metrics_listen": "\"127.0.0.1:0\""], under: limit.wrapper)
        #expect(daemon.exitStatus() == 78)
        #expect(daemon.standardError.contains("metrics_listen: cannot be served: no thread for"), "\(daemon.standardError)")
    }

    /// Three threads belong to the log, the side channel and the pool; the fourth belongs to a session, which has none for the
    /// name lookup.
    @Test(arguments: [3, 4])
    func `sessions wait for free threads, and no job is lost`(left: Int) throws {
        let stage = try Stage()
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        let limit = try ThreadLimit(left)
        let daemon = try stage.start(under: limit.wrapper)
        #expect(daemon.says("no thread for \"apns "))
        #expect(stage.simulator.totals.requests == 0)
        #expect(daemon.process.poll() == nil)
        limit.allow(-1)
        #expect(try stage.settles(100))
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().unexplained == 0)
    }
}
