import APNSSimulator
import Harness
import RedisQueue
import Testing

@Suite("gaplessd pause", .blocking)
struct DaemonPauseTests {
    private func call(_ call: String, _ arguments: String..., settings: String) throws {
        #expect(try Call([call, settings] + arguments).status == 0)
    }

    @Test func `stops a daemon under load and a restarted one; resume delivers every job once, in order`() throws {
        let stage = try Stage()
        let listens: [String: String?] = [
            "metrics_listen": "\"127.0.0.1:0\"", "max_rate": "200", "pool_size": "1", "apns_max_concurrent_streams": "1",
        ]
        let settings = try stage.write(listens)
        let daemon = try stage.startOpen(listens)
        try stage.push((0..<600).map { pushJob(deviceToken($0)) })
        #expect(stage.accepts(20))
        try call("pause", "--reason", "bad campaign", settings: settings)
        #expect(daemon.says("bad campaign"))
        #expect(try waitUntil { try stage.status().inFlight == 0 })
        let accepted = stage.simulator.totals.accepted
        let waiting = try stage.backlog()
        #expect(waiting == (accepted - 1..<600).map { pushJob(deviceToken($0)) })
        #expect(daemon.stop()?.status == 0)
        let second = try stage.start(listens)
        let port = try #require(second.metricsPort())
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port)?.body.contains("bad campaign") == true })
        #expect(waitUntil { HTTPTalk.get("/readyz", port: port)?.body.hasPrefix("ready\n") == true })
        #expect(
            waitUntil { HTTPTalk.get("/metrics", port: port)?.body.contains("gapless_paused{queue=\"\(Stage.list)\"} 1") == true }
        )
        #expect(try stage.backlog() == waiting && stage.simulator.totals.accepted == accepted)
        try call("resume", settings: settings)
        #expect(stage.accepts(601))
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try waitUntil { try stage.status().inFlight == 0 })
        #expect(try stage.status().unexplained == 0)
        #expect(second.stop()?.status == 0)
    }
}
