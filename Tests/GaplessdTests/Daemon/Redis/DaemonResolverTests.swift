import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("A resolver that hangs", .blocking)
struct DaemonResolverTests {
    private let port = FreePort.pick()

    private func stage() throws -> Stage { try Stage(redis: ["--port", "\(port)", "--bind", "127.0.0.1"]) }

    private func start(_ stage: Stage, _ names: HangingNames) throws -> DaemonProcess {
        try stage.start(
            ["redis_socket_path": nil, "redis_host": "\"localhost\"", "redis_port": "\(port)"], environment: names.environment)
    }

    @Test func `delays no exit of a daemon that has not reached Redis`() throws {
        let (stage, names) = (try stage(), try HangingNames())
        try stage.push(pushJob("0a"))
        names.hang()
        let daemon = try start(stage, names)
        #expect(daemon.says("looking up localhost"))
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().backlog == 1)
    }

    @Test func `rejects a reload with a new name in metrics_listen, and jobs continue`() throws {
        let (stage, names) = (try Stage(), try HangingNames())
        let daemon = try stage.start(environment: names.environment)
        try stage.open(daemon)
        names.hang()
        try stage.write(["metrics_listen": "\"localhost:0\""])
        daemon.signal(SIGHUP)
        #expect(daemon.says("metrics_listen: cannot listen at localhost:0: looking up localhost: timed out"))
        #expect(daemon.says("Reload failed: "))
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(2))
        names.release()
        #expect(daemon.reloads())
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `does not prevent a reconnect to the last known address`() throws {
        let (stage, names) = (try stage(), try HangingNames())
        let daemon = try start(stage, names)
        try stage.open(daemon)
        names.hang()
        try stage.killClients()
        try stage.push((0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(101))
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0)
    }
}
