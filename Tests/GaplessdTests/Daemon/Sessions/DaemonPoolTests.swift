import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The governor", .blocking)
struct DaemonGovernorTests {
    @Test func `sessions open while all are full, and close when fewer are enough`() throws {
        let settings = [
            "pool_size": "1", "pool_max_size": "4", "pool_poll_interval": "0.05", "pool_min_sustain": "0.2",
            "pool_settle_period": "0.3",
        ]
        let (stage, daemon) = try given(settings, on: Stage { $0.behaviour.streamLimit = 1 })
        stage.simulator.behave { $0.script.latency = .milliseconds(5)...(.milliseconds(5)) }
        try stage.push((0..<1200).map { pushJob(deviceToken($0)) })
        #expect(daemon.says("4 sessions instead of 3: all were full."))
        #expect(waitUntil { stage.simulator.totals.connections == 4 })
        #expect(try stage.drains())
        #expect(daemon.says("1 session instead of 2: fewer are enough."))
        #expect(waitUntil { daemon.reports.count { $0.contains(" is closed.") } == 3 })
        // Again, after an idle time.
        try stage.push((2000..<3200).map { pushJob(deviceToken($0)) })
        #expect(waitUntil { daemon.reports.count { $0.contains("2 sessions instead of 1: all were full.") } == 2 })
        #expect(try stage.drains())
        #expect(stage.simulator.ledger.acceptedCounts.count == 2400)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.maybeDuplicate) == 0)
    }

}

@Suite("APNs at a distance", .blocking)
struct DaemonDistanceTests {
    private static let data = #"{"aps":{"alert":"\#(String(repeating: "x", count: 4000))"}}"#

    /// A distance, and an `apns_request_timeout` that leaves little time for a response.
    struct Case: Sendable {
        var delay: Duration
        var jitter = Duration.zero
        var bytesPerSecond: Int?
        var timeout: Double
    }

    /// A stage whose simulator is half of a round trip away.
    private func stage(_ delay: Duration, jitter: Duration = .zero, bytesPerSecond: Int? = nil) throws -> Stage {
        let stage = try Stage(proxySeed: 1)
        stage.serviceProxy?.behaviour.delay = delay
        stage.serviceProxy?.behaviour.jitter = jitter
        stage.serviceProxy?.behaviour.bytesPerSecond = bytesPerSecond
        return stage
    }

    /// The send windows let about 32 of these pushes go in a round trip, so that all of them take several request timeouts.
    @Test(arguments: [
        Case(delay: .milliseconds(100), timeout: 1),
        Case(delay: .milliseconds(20), jitter: .milliseconds(20), bytesPerSecond: 400_000, timeout: 1.5),
    ])
    func `a push that waits for a send window does not time out`(distance: Case) throws {
        let (stage, daemon) = try givenOpen(
            ["apns_request_timeout": "\(distance.timeout)"],
            on: stage(distance.delay, jitter: distance.jitter, bytesPerSecond: distance.bytesPerSecond))
        try stage.push((0..<800).map { pushJob(deviceToken($0), data: Self.data) })
        #expect(try stage.drains(atMost: .seconds(60)), "\(daemon.standardError.suffix(2000))")
        #expect(stage.simulator.ledger.acceptedCounts.count == 801)
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().dead == 0)
        #expect(stage.simulator.totals.connections == 2, "no session was replaced")
    }

    @Test func `an automatic pool grows with a backlog at a distance, and the bottleneck is named`() throws {
        let (stage, daemon) = try givenOpen(
            ["pool_size": "\"auto\"", "pool_max_size": "6"], on: stage(.milliseconds(50)))
        try stage.push((0..<1500).map { pushJob(deviceToken($0), data: Self.data) })
        #expect(daemon.says("6 sessions instead of 1"), "\(daemon.standardOutput)")
        #expect(waitUntil { stage.simulator.totals.connections >= 6 })
        #expect(try stage.drains(atMost: .seconds(60)))
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(try stage.counter(.retried) == 0)
    }

    @Test func `a fixed pool that windows limit advises a larger one, and metrics name the window`() throws {
        let (stage, daemon, port) = try givenMetrics(["pool_size": "1"], on: stage(.milliseconds(50)))
        try stage.open(daemon)
        try stage.push((0..<2000).map { pushJob(deviceToken($0), data: Self.data) })
        let window = #"gapless_app_bottleneck{app="(top level)",bottleneck="window"} 1"#
        #expect(waitUntil { HTTPTalk.get("/metrics", port: port)?.body.contains(window) ?? false })
        #expect(daemon.says("; pool_size 4 would carry "), "\(daemon.standardOutput)")
        daemon.crash()
    }
}

@Suite("The bottleneck of a daemon", .blocking)
struct DaemonBottleneckTests {
    /// A limit that is made on purpose.
    struct Case: Sendable, CustomTestStringConvertible {
        var bottleneck: Bottleneck
        var settings: [String: String] = [:]
        /// Half of a round trip, to APNs and to Redis.
        var distance = Duration.zero
        var redisDistance = Duration.zero
        var payload = 2
        var behave: @Sendable (inout Behaviour) -> Void = { _ in }

        var testDescription: String { bottleneck.rawValue }
    }

    private static let cases = [
        Case(bottleneck: .window, settings: ["pool_size": "1"], distance: .milliseconds(50), payload: 4000),
        Case(
            bottleneck: .streams, settings: ["pool_size": "1", "apns_max_concurrent_streams": "5"],
            distance: .milliseconds(100)),
        Case(bottleneck: .redis, settings: ["apns_max_concurrent_streams": "20"], redisDistance: .milliseconds(100)),
        Case(bottleneck: .rateLimit, settings: ["max_rate": "20"]),
        Case(
            bottleneck: .hold,
            behave: { $0.script.failures = [.init(.status(403, "InvalidProviderToken"), 1)] }),
        Case(
            bottleneck: .apns, settings: ["apns_max_concurrent_streams": "20"],
            behave: { $0.script.latency = .seconds(1)...(.seconds(1)) }),
    ]

    @Test(arguments: cases)
    func `is named in the status, the metrics and the document of the page`(limit: Case) throws {
        let stage = try Stage(proxySeed: 1)
        stage.serviceProxy?.behaviour.delay = limit.distance
        stage.redisProxy?.behaviour.delay = limit.redisDistance
        let (_, daemon, port) = try givenMetrics(limit.settings.mapValues { $0 }, on: stage)
        if limit.bottleneck != .hold { try stage.open(daemon) }
        stage.simulator.behave(limit.behave)
        let data = #"{"aps":{"alert":"\#(String(repeating: "x", count: limit.payload))"}}"#
        try stage.push((0..<20_000).map { pushJob(deviceToken($0), data: data) })
        let name = limit.bottleneck.rawValue
        let metric = #"gapless_app_bottleneck{app="(top level)",bottleneck="\#(name)"} 1"#
        #expect(waitUntil { HTTPTalk.get("/metrics", port: port)?.body.contains(metric) ?? false })
        #expect(
            waitUntil {
                let body = HTTPTalk.get("/status.json", port: port)?.body ?? ""
                guard let document = try? JSONValue.parse(Array(body.utf8)), case .array(let apps)? = document["apps"] else {
                    return false
                }
                return apps.first?["bottleneck"]?.stringValue == name
            })
        let worker = try #require(try stage.status().workers.first).name
        #expect(
            try waitUntil {
                let reply = try stage.command("HGET", stage.keys.worker(worker), WorkerRecord.apps)
                guard case .array(let apps)? = try reply.bytes.map({ try JSONValue.parse($0) }) else { return false }
                return apps.first?["bottleneck"]?.stringValue == name
            })
        daemon.crash()
    }
}
