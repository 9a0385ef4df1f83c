import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("The start of a daemon", .blocking)
struct DaemonStartTests {
    private let folder = TemporaryFolder()

    private func call(_ arguments: String...) throws -> (status: CInt?, output: String, errors: [Substring]) {
        let process = try ChildProcess(
            BuiltProducts.path("gaplessd"), arguments, environment: ["STATE_DIRECTORY": folder.file("state")],
            standardOutput: .file(folder.file("out")),
            standardError: .file(folder.file("err")))
        let exit = process.wait(atMost: .seconds(20))
        defer {
            unlink(folder.file("out"))
            unlink(folder.file("err"))
        }
        return (exit?.status, File.read(folder.file("out")), File.read(folder.file("err")).split(separator: "\n"))
    }

    @Test func `wrong usage exits with 64, and help with 0`() throws {
        #expect(try call().status == 64)
        #expect(try call("a.json", "b.json").status == 64)
        #expect(try call("run").status == 64)
        #expect(try call("--nonsense", "a.json").status == 64)
        #expect(try call("--help").status == 0)
        #expect(try call("help", "run").status == 0)
        let version = try call("--version")
        #expect(version.status == 0)
        #expect(version.output.contains(#/^\S*\d+\.\d+\.\d+/#))
    }

    @Test func `a missing settings file is a settings fault`() throws {
        for words in [[folder.file("none.json")], ["run", folder.file("none.json")], ["check", folder.file("none.json")]] {
            let (status, output, errors) = words.count == 1 ? try call(words[0]) : try call(words[0], words[1])
            #expect(status == 78)
            #expect(output.isEmpty)
            #expect(errors.count == 1)
            #expect(errors.first?.contains("none.json") == true)
        }
    }

    @Test func `every fault has a line with the file, the key, the problem and the expected value`() throws {
        let path = folder.file("settings.json")
        try File.write(
            #"{"_note": 1, "// note": 2, "apns_server": 5, "redis_quue_key": "q", "pool_size": 0, "#
                + #""log_format": "xml", "apns_cert_path": "no.pem"}"#,
            to: path)
        let (status, output, errors) = try call(path)
        #expect(status == 78)
        #expect(output.isEmpty)
        #expect(errors.allSatisfy { $0.hasPrefix("\(path): ") })
        for key in ["apns_server", "redis_quue_key", "redis_queue_key", "pool_size", "log_format"] {
            #expect(errors.count { $0.contains(": \(key): ") } == 1, "\(key) in \(errors)")
        }
        #expect(errors.contains { $0.contains("redis_quue_key") && $0.contains("redis_queue_key") }, "suggests the nearest key")
    }

    @Test func `check connects to Redis and to APNs`() throws {
        let stage = try Stage()
        let settings = try stage.write()
        let good = try call("check", settings)
        #expect(good.status == 0, "\(good)")
        #expect(good.output.contains("redis: "))
        #expect(good.output.contains("apns: "))
        stage.redis.kill()
        stage.simulator.stop()
        let bad = try call("check", settings)
        #expect(bad.status == 69)
        #expect(bad.errors.contains { $0.hasPrefix("redis: no response: ") })
        #expect(bad.errors.contains { $0.hasPrefix("apns: no response: ") })
        #expect(try call("check", "--offline", settings).status == 0)
    }

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
        let fault = try call("check", "--offline", settings)
        #expect(fault.status == 78)
        #expect(fault.errors.first?.contains("no data within 2.0 seconds") == true, "\(fault.errors)")
        let stage = try Stage()
        let process = try ChildProcess(
            "sh",
            [
                "-c", "cat \"$1\" > \"$2\" & exec \"$0\" check --offline \"$2\"", BuiltProducts.path("gaplessd"), stage.write(),
                settings,
            ],
            standardOutput: .file(folder.file("out")), standardError: .file(folder.file("err")))
        #expect(process.wait(atMost: .seconds(20))?.status == 78)
        #expect(File.read(folder.file("err")).contains("apns_auth_key_path"))
    }

    @Test func `Redis shows the running worker`() throws {
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
    }
}
