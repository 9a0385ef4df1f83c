import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

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
        let stage = try Stage(on: RedisServer(), proxySeed: 1) { try HostedSimulator(folder: $0) }
        stage.serviceProxy?.behaviour.delay = limit.distance
        stage.redisProxy?.behaviour.delay = limit.redisDistance
        var settings: [String: String?] = limit.settings.mapValues { $0 }
        settings["metrics_listen"] = "\"127.0.0.1:0\""
        let daemon = try stage.start(settings)
        let port = try #require(daemon.metricsPort())
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
