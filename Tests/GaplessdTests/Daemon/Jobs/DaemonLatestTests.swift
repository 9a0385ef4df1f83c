import APNSSimulator
import Harness
import JSONBytes
import Platform
import RedisQueue
import Testing

@Suite("Latest wins, on the whole daemon", .blocking)
struct DaemonLatestTests {
    private static let channel = "dHN0LXNyY2gtY2hubA=="

    private func stage() throws -> Stage { try Stage { $0.channels = [.init(app: Stage.topic, id: Self.channel)] } }

    private func update(_ number: Int, _ members: String = #","replaces":"score""#, event: String = "update") -> String {
        #"{"channel":"\#(Self.channel)"\#(members),"data":{"aps":{"event":"\#(event)"},"n":\#(number)}}"#
    }

    /// The numbers of the accepted pushes of a token or channel, in their order.
    private func accepted(_ token: String, _ stage: Stage) -> [Int] {
        stage.simulator.ledger.requests(for: token).compactMap { entry in
            guard case .accepted = entry.verdict, let body = entry.body, let tree = try? JSONValue.parse(body) else { return nil }
            return tree["n"]?.integerValue.map { Int($0) }
        }
    }

    @Test func `of the states of a channel that pile up while it is paused, the newest is sent`() throws {
        let stage = try stage()
        let daemon = try stage.startOpen(["redis_results_key": "\"results\""])
        stage.simulator.plan(token: Self.channel, answers: [.status(429, "TooManyRequests", retryAfter: 2)])
        try stage.push(update(1))
        #expect(try waitUntil { try stage.counter(.postponed) == 1 })
        try stage.push((2...20).map { update($0) })
        #expect(try waitUntil { try stage.counter(.superseded) == 19 })
        #expect(try stage.status().states == 1 && stage.status().paced == 1)
        #expect(try stage.settles(2))
        #expect(accepted(Self.channel, stage) == [20])
        let results = try stage.command("XRANGE", "results", "-", "+").items ?? []
        let reasons = results.map { ($0.items?[1].items ?? []).compactMap(\.text) }
        #expect(reasons.count { $0.contains("Superseded") && $0.contains(Self.channel) } == 19)
        #expect(try stage.counter(.retried) == 0 && stage.status().unexplained == 0)
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0 && stage.leftoverKeys() == ["results"])
    }

    @Test func `a channel waits for channel_pace between two updates, in order, and other channels and devices do not`() throws {
        let stage = try stage()
        let daemon = try stage.startOpen(["channel_pace": "0.5"])
        try stage.push((1...3).map { update($0, "") } + (0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(104))
        #expect(accepted(Self.channel, stage) == [1, 2, 3])
        let times = stage.simulator.ledger.requests(for: Self.channel).map(\.time)
        #expect(zip(times, times.dropFirst()).allSatisfy { $1 - $0 >= .milliseconds(300) })
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `cancel removes a state that waits, and undo puts it behind a newer one`() throws {
        let stage = try stage()
        let daemon = try stage.startOpen()
        stage.simulator.plan(token: Self.channel, answers: [.status(429, "TooManyRequests", retryAfter: 900)])
        try stage.push(update(1))
        #expect(try waitUntil { try stage.counter(.postponed) == 1 })
        var client = try RedisClient(settings: stage.server)
        let jobs = WaitingJobs(stage.keys)
        let page = try jobs.page(of: .states, from: 0, &client)
        #expect(page.count == 1 && page[0].job.count > update(1).utf8.count)
        let cancelled = CancelledJobs(stage.keys)
        let found = try cancelled.page(of: .states, skipping: 0, &client)
        let move = CancelledJobs.Move(fromTail: 1, element: try #require(found.first?.field), record: Array("record".utf8))
        #expect(try cancelled.cancel([move], from: .states, &client))
        #expect(try stage.status().states == 0 && stage.status().cancelled == 1)
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0)
    }

    /// Two daemons, of which one is killed every now and then, while states of many scopes arrive.
    @Test(.timeLimit(.minutes(20)))
    func `the accepted states of each scope are in order and end with the last one, whatever daemon dies`() throws {
        let seed = UInt64.random(in: 0...999_999)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let stage = try Stage()
        let settings = ["redis_lease": "1", "retry_delays": "[0.05]"]
        var daemons = [try stage.startOpen(settings), try stage.start(settings, name: "b.json")]
        let scopes = 40
        var pushed: [Int: Int] = [:]
        stage.simulator.behave { $0.devices = [DeviceRule(prefix: "", .slow(.milliseconds(20)))] }
        for round in 0..<4 {
            for _ in 0..<60 {
                let jobs = (0..<10).map { _ -> String in
                    let scope = Int.random(in: 0..<scopes, using: &random)
                    pushed[scope, default: 0] += 1
                    return pushJob(
                        deviceToken(scope), #""replaces":"s""#, data: #"{"aps":{"alert":"x"},"n":\#(pushed[scope, default: 0])}"#)
                }
                try stage.push(jobs)
                Poller.sleep(.milliseconds(5))
            }
            let victim = Int.random(in: 0..<2, using: &random)
            daemons[victim].crash()
            daemons[victim] = try stage.start(settings, name: "r\(round).json")
        }
        #expect(try stage.drains(atMost: .seconds(120)), "seed \(seed)")
        for daemon in daemons { #expect(daemon.stop()?.status == 0) }
        var (sent, unordered) = (0, 0)
        for (scope, last) in pushed {
            let order = accepted(deviceToken(scope), stage)
            sent += order.count
            unordered += zip(order, order.dropFirst()).count { $0 > $1 }
            #expect(order.last == last, "scope \(scope): \(order.suffix(5)) of \(last), seed \(seed)")
        }
        #expect(unordered == 0, "seed \(seed)")
        let status = try stage.status()
        #expect(status.unexplained == 0 && status.counter(.dead) == 0, "seed \(seed)")
        let all = pushed.values.reduce(0, +)
        #expect(status.counter(.sent) - 1 + status.counter(.superseded) == all, "seed \(seed)")
        #expect(sent - (status.counter(.sent) - 1) <= status.counter(.maybeDuplicate), "seed \(seed)")
    }
}
