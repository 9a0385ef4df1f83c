import APNSSimulator
import Harness
import RedisQueue
import Testing

@Suite("APNs at a distance", .blocking)
struct DaemonDistanceTests {
    private static let data = #"{"aps":{"alert":"\#(String(repeating: "x", count: 4000))"}}"#

    /// A distance, and settings that leave little time for a response.
    struct Case: Sendable {
        var delay: Duration
        var jitter = Duration.zero
        var bytesPerSecond: Int?
        var jobs = 800
        var settings: [String: String]
    }

    /// The send windows let about 32 of these pushes go in a round trip, so that all of them take several request timeouts.
    @Test(arguments: [
        Case(delay: .milliseconds(75), settings: ["apns_request_timeout": "2"]),
        Case(delay: .milliseconds(100), settings: ["apns_request_timeout": "1", "retry_delays": "[1,1,1]"]),
        Case(delay: .milliseconds(100), jobs: 2400, settings: ["apns_request_timeout": "5", "retry_delays": "[1,1,1]"]),
        Case(
            delay: .milliseconds(20), jitter: .milliseconds(20), bytesPerSecond: 400_000,
            settings: ["apns_request_timeout": "1.5"]),
    ])
    func `a push that waits for a send window does not time out`(distance: Case) throws {
        let stage = try Stage()
        let relay = try FaultProxy(toPort: stage.service.port, seed: 1)
        (relay.behaviour.delay, relay.behaviour.jitter) = (distance.delay, distance.jitter)
        relay.behaviour.bytesPerSecond = distance.bytesPerSecond
        let settings = distance.settings.merging(["apns_server": "\"localhost:\(relay.port)\""]) { $1 }
        let daemon = try stage.startOpen(settings.mapValues { $0 })
        try stage.push((0..<distance.jobs).map { pushJob(deviceToken($0), data: Self.data) })
        #expect(try stage.drains(atMost: .seconds(60)), "\(daemon.standardError.suffix(2000))")
        #expect(stage.simulator.ledger.acceptedCounts.count == distance.jobs + 1)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().dead == 0)
        #expect(stage.simulator.totals.connections == 2, "no session was replaced")
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `an automatic pool grows with a backlog at a distance, and the bottleneck is named`() throws {
        let stage = try Stage()
        let relay = try FaultProxy(toPort: stage.service.port, seed: 1)
        relay.behaviour.delay = .milliseconds(50)
        let daemon = try stage.startOpen([
            "apns_server": "\"localhost:\(relay.port)\"", "pool_size": "\"auto\"", "pool_max_size": "6",
        ])
        #expect(stage.simulator.totals.connections == 1)
        try stage.push((0..<1500).map { pushJob(deviceToken($0), data: Self.data) })
        #expect(daemon.says("6 sessions instead of 1"), "\(daemon.standardOutput)")
        #expect(waitUntil { stage.simulator.totals.connections == 6 })
        #expect(try stage.drains(atMost: .seconds(60)))
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.retried) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a fixed pool that windows limit advises a larger one, and metrics name the window`() throws {
        let stage = try Stage()
        let relay = try FaultProxy(toPort: stage.service.port, seed: 1)
        relay.behaviour.delay = .milliseconds(50)
        let daemon = try stage.start([
            "apns_server": "\"localhost:\(relay.port)\"", "pool_size": "1", "metrics_listen": "\"127.0.0.1:0\"",
        ])
        let port = try #require(daemon.metricsPort())
        try stage.open(daemon)
        try stage.push((0..<2000).map { pushJob(deviceToken($0), data: Self.data) })
        let window = #"gapless_app_bottleneck{app="(top level)",bottleneck="window"} 1"#
        #expect(waitUntil { HTTPTalk.get("/metrics", port: port)?.body.contains(window) ?? false })
        #expect(daemon.says("; pool_size 4 would carry "), "\(daemon.standardOutput)")
        daemon.crash()
    }
}
