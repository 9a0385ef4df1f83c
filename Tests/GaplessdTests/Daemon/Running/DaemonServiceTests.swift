import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("A daemon under a service manager", .blocking)
struct DaemonServiceTests {
    private static let reload = ["RELOADING=1", "READY=1"]

    private func environment(_ manager: ServiceManager) -> [String: String] {
        // Empty: no process is excluded from the watchdog.
        ["NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "1000000"]
    }

    @Test func `reports start, reloads, holds and stop in order`() throws {
        let stage = try Stage()
        let manager = try ServiceManager("@gaplessd-test-\(getpid())")
        let daemon = try stage.start(["drain_timeout": "60"], environment: environment(manager))
        #expect(waitUntil(atMost: .seconds(30)) { manager.changes == ["READY=1"] })
        try stage.open(daemon)
        #expect(waitUntil { manager.assignments.contains { $0.hasPrefix("STATUS=") && $0.contains("2 sessions") } })

        daemon.signal(SIGHUP)
        #expect(waitUntil { manager.changes == ["READY=1"] + Self.reload })
        #expect(manager.assignments.contains { $0.hasPrefix("MONOTONIC_USEC=") && Int64($0.dropFirst(15)) != nil })
        try File.write("{rubbish", to: stage.folder.file("settings.json"))
        daemon.signal(SIGHUP)
        #expect(waitUntil { manager.changes == ["READY=1"] + Self.reload + Self.reload })
        #expect(daemon.says("Reload failed"))

        stage.simulator.behave { $0.script.failures = [.init(.status(400, "TopicDisallowed"), 1)] }
        try stage.push(pushJob(deviceToken(1)))
        #expect(
            waitUntil(atMost: .seconds(30)) { manager.assignments.last { $0.hasPrefix("STATUS=") }?.contains("held") == true })

        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        let requests = stage.simulator.totals.requests
        // A probe of the held app.
        #expect(waitUntil(atMost: .seconds(60)) { stage.simulator.totals.requests > requests })
        daemon.signal(SIGTERM)
        #expect(waitUntil { manager.changes.last == "STOPPING=1" })
        let message = manager.messages.last { $0.contains("STOPPING=1") }
        #expect(message?.contains("EXTEND_TIMEOUT_USEC=") == true)
        daemon.signal(SIGTERM)
        #expect(daemon.exitStatus() == 0)
        #expect(manager.changes == ["READY=1"] + Self.reload + Self.reload + ["STOPPING=1"])
    }

    @Test func `is not ready without Redis, but feeds the watchdog, and a stopped process does not`() throws {
        let stage = try Stage()
        let manager = try ServiceManager(stage.folder.file("notify"))
        let socket = stage.folder.file("none.sock")
        let daemon = try stage.start(["redis_socket_path": "\"\(socket)\""], environment: environment(manager))
        #expect(waitUntil(atMost: .seconds(30)) { manager.assignments.count { $0 == "WATCHDOG=1" } > 2 })
        #expect(manager.changes == [])
        #expect(manager.assignments.contains { $0.hasPrefix("STATUS=") && $0.contains(Stage.list) })
        #expect(symlink(stage.redis.socketPath, socket) == 0)
        #expect(waitUntil(atMost: .seconds(30)) { manager.changes == ["READY=1"] })
        stage.redis.kill()
        let before = manager.assignments.count { $0 == "WATCHDOG=1" }
        #expect(waitUntil(atMost: .seconds(30)) { manager.assignments.count { $0 == "WATCHDOG=1" } > before + 2 })

        daemon.signal(SIGSTOP)
        #expect(waitUntil { File.read("/proc/\(daemon.process.pid)/stat").contains(") T ") })
        let stopped = manager.messages.count
        #expect(!waitUntil(atMost: .seconds(2)) { manager.messages.count > stopped })
        daemon.signal(SIGCONT)
        #expect(waitUntil { manager.messages.count > stopped })
        #expect(daemon.stop()?.status == 0)
        #expect(manager.changes == ["READY=1", "STOPPING=1"])
    }

    @Test func `stops in order under load`() throws {
        let stage = try Stage()
        let manager = try ServiceManager(stage.folder.file("notify"))
        let daemon = try stage.start(["apns_max_concurrent_streams": "20"], environment: environment(manager))
        try stage.open(daemon)
        stage.simulator.behave { $0.script.latency = .milliseconds(50)...(.milliseconds(60)) }
        try stage.push((0..<1000).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(100))
        #expect(daemon.stop()?.status == 0)
        #expect(manager.changes == ["READY=1", "STOPPING=1"])
        #expect(try stage.backlog().count + stage.simulator.totals.accepted == 1001)
    }

    @Test func `runs without a service manager that listens, and logs it`() throws {
        let stage = try Stage()
        let name = stage.folder.file("nobody")
        let daemon = try stage.start(environment: ["NOTIFY_SOCKET": name])
        try stage.open(daemon)
        #expect(daemon.complaints.count { $0.contains("service manager") } == 1)
        let other = try stage.start(name: "other.json", environment: ["NOTIFY_SOCKET": "relative"])
        #expect(other.says("NOTIFY_SOCKET relative"))
    }
}
