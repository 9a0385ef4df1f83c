import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("A system without free threads", .blocking)
struct DaemonThreadTests {
    /// The log, the side channel and each pool have a thread from the start.
    @Test(arguments: [0: "log", 1: "side channel", 2: "apns pool"])
    func `a daemon that cannot start exits, and claims nothing`(left: Int, name: String) throws {
        let stage = try Stage()
        try stage.push(pushJob("0a"))
        let limit = try ThreadLimit(left)
        let daemon = try stage.start(under: limit.wrapper)
        let exit = daemon.process.wait(atMost: .seconds(20))
        #expect(exit?.status == 1)
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
        #expect(daemon.process.wait(atMost: .seconds(20))?.status == 78)
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
