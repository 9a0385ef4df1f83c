import APNSSimulator
import Foundation
import Harness
import RedisQueue
import Testing

@Suite("docs/complaints.md")
struct ComplaintTableTests {
    private static let rows = Checkout.read("docs/complaints.md").split(separator: "\n").filter { $0.contains(/^\| \d/) }

    private static let sources: [String: String] = {
        let folder = "\(Checkout.path)/Tests"
        let files = FileManager.default.enumerator(atPath: folder)?.compactMap { $0 as? String } ?? []
        return Dictionary(
            files.filter { $0.hasSuffix(".swift") }.map { file in
                (file.split(separator: "/").last.map { String($0.dropLast(6)) } ?? "", Checkout.read("Tests/\(file)"))
            }, uniquingKeysWith: +)
    }()

    @Test func `it has 25 rows, each with a behaviour and a test`() {
        #expect(Self.rows.count == 25)
        for (number, row) in Self.rows.enumerated() {
            #expect(row.hasPrefix("| \(number + 1) |"))
            #expect(row.split(separator: "|").count == 4)
            #expect(!row.matches(of: /`(\w+)`: \*([^*]+)\*/).isEmpty, "\(row)")
        }
    }

    @Test func `every test that it names exists`() {
        for row in Self.rows {
            for match in row.matches(of: /`(\w+)`: \*([^*]+)\*/) {
                let source = Self.sources[String(match.1)] ?? ""
                #expect(source.contains("func `\(match.2)`("), "\(match.1): \(match.2)")
            }
        }
    }

    @Test func `every row of the fault table that it names exists`() {
        let faults = Checkout.read("docs/faults.md").split(separator: "\n").map { $0.split(separator: "|") }
        let named = Self.rows.flatMap { $0.matches(of: /row (\d+) `([a-z-]+)`/).map { (String($0.1), String($0.2)) } }
        #expect(named.count >= 10)
        for (number, name) in named {
            let isThere = faults.contains { $0.count > 2 && $0[0].contains(number) && $0[1].contains(name) }
            #expect(isThere, "\(number) \(name)")
        }
    }
}

@Suite("Complaints about other clients")
struct ComplaintTests {
    @Test func `while APNs is silent the daemon claims no more than its streams and a batch`() throws {
        let stage = try Stage {
            $0.behaviour.streamLimit = 50
            $0.behaviour.tokenStreamLimit = 50
        }
        let daemon = try stage.start(["redis_lease": "2"])
        try stage.open(daemon)
        stage.simulator.behave { $0.script.failures = [.init(.silent, 1)] }
        try stage.push((0..<5000).map { pushJob(deviceToken($0)) })
        #expect(waitUntil { stage.simulator.totals.requests == 101 })
        // Two beats of the worker prove that its loop ran, and could have claimed more.
        let beats = {
            try stage.command("ZRANGE", stage.keys.workers, "0", "-1", "WITHSCORES").items?.last?.text.flatMap(Double.init) ?? 0
        }
        let first = try beats()
        var most = 0
        #expect(
            try waitUntil {
                most = max(most, try stage.status().inFlight)
                return try beats() >= first + 2
            })
        #expect(most <= 2 * 2 * 50, "\(most) in flight")
        #expect(try stage.status().backlog >= 4800)
        #expect(stage.simulator.totals.limitViolations == 0)
        daemon.crash()
    }

    @Test(arguments: [
        ("apns_max_concurrent_streams", "0"), ("pool_size", "0"), ("apns_request_timeout", "0"), ("apns_dial_timeout", "-1"),
        ("retry_delays", "[]"), ("redis_lease", "0"),
    ])
    func `settings that would stop every push are faults`(key: String, value: String) throws {
        let stage = try Stage()
        let daemon = try stage.start([key: value])
        #expect(daemon.exitStatus() == 78)
        #expect(daemon.standardError.contains(key))
    }

    @Test func `thousands of errors on one session cause no stall`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["pool_size": "1"])
        try stage.open(daemon)
        stage.simulator.behave { $0.devices = [.init(prefix: "dead", .unregistered(since: nil))] }
        let dead = (0..<5000).map { "dead" + deviceToken($0) }
        try stage.push(dead.map { pushJob($0) } + [pushJob("0b")])
        #expect(stage.accepts(2))
        #expect(try stage.drains())
        #expect(try stage.status().dead == 5000)
        #expect(try stage.status().feedback == 5000)
        #expect(stage.simulator.totals.connections == 1)
        #expect(stage.simulator.totals.requests == 5002)
        #expect(try stage.counter(.retried) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a clock that is hours behind holds the app and is named in the log`() throws {
        let stage = try Stage()
        // APNs is two hours ahead, so every token that the daemon signs has expired.
        stage.simulator.advanceClock(seconds: 7200)
        try stage.push((0..<5).map { pushJob(deviceToken($0)) })
        let daemon = try stage.start()
        #expect(daemon.says("and the clock"))
        #expect(daemon.says("ExpiredProviderToken"))
        #expect(try waitUntil { try stage.status().backlog == 5 && stage.status().inFlight == 0 })
        #expect(try stage.status().dead == 0)
        #expect(try stage.counter(.retried) == 0)
        #expect(daemon.stop()?.status == 0)
    }

    @Test(arguments: ["Shutdown", "going down for a minute", ""])
    func `the reason of a GOAWAY is in the log in every form`(text: String) throws {
        let stage = try Stage()
        let daemon = try stage.start()
        try stage.open(daemon)
        stage.simulator.plan(token: "0a", answers: [.goAway(try GoAway.kind("below:\(text)").0)])
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(2))
        #expect(daemon.says("is closed: GOAWAY"))
        #expect(daemon.says(text))
        stage.simulator.goAway(.tooManyStreams)
        #expect(daemon.says("Maximum active streams violated for this endpoint."))
        #expect(daemon.stop()?.status == 0)
    }
}
