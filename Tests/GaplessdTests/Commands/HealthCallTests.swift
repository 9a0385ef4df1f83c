import Glibc
import Harness
import Testing

@testable import gaplessd

@Suite("gaplessd health")
struct HealthCallTests {
    @Test(arguments: ["127.0.0.1", "0.0.0.0"]) func `a running daemon is healthy, and a stopped process does not respond`(
        host: String
    ) throws {
        let stage = try Stage()
        let daemon = try stage.start(["metrics_listen": "\"\(host):\(FreePort.pick())\""])
        let file = stage.folder.file("settings.json")
        #expect(waitUntil { daemon.hasStarted })
        let healthy = try Call(["health", file])
        #expect(healthy.status == 0 && healthy.output == "ok\n", "\(healthy.errors)")
        daemon.signal(SIGSTOP)
        let silent = try Call(["health", file])
        #expect(silent.status == 69 && silent.errors.contains("no gaplessd responds at \(host)"), "\(silent.errors)")
        daemon.signal(SIGCONT)
        #expect(daemon.stop()?.status == 0)
        #expect(try Call(["health", file]).status == 69)
    }

    @Test(arguments: [nil, "\"127.0.0.1:0\""]) func `without a known address it exits with 78`(address: String?) throws {
        let folder = TemporaryFolder()
        let file = try CallStage.write(["metrics_listen": address], to: folder.file("settings.json"))
        let call = try Call(["health", file])
        #expect(call.status == 78 && call.errors.contains("metrics_listen: required key is missing"), "\(call.errors)")
    }

    @Test func `a fault that the daemon reports is printed, with 1`() throws {
        let other = try ConnectProxy(
            .respond("HTTP/1.1 503 Service Unavailable\r\nServer: gaplessd\r\n\r\ndispatcher loop stalled for 12 s\n"))
        let folder = TemporaryFolder()
        let file = try CallStage.write(["metrics_listen": "\"127.0.0.1:\(other.port)\""], to: folder.file("settings.json"))
        let call = try Call(["health", file])
        #expect(call.status == 1 && call.errors == "health: dispatcher loop stalled for 12 s\n", "\(call.errors)")
    }
}
