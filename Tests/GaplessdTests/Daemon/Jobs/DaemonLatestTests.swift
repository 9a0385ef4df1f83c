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

    /// Pushes a state that APNs refuses with a pause of two seconds, and waits until Redis has it again.
    private func pause(_ channel: String = Self.channel, with job: String, _ stage: Stage) throws {
        stage.simulator.plan(token: channel, answers: [.status(429, "TooManyRequests", retryAfter: 2)])
        let before = try stage.counter(.postponed)
        try stage.push(job)
        #expect(try waitUntil { try stage.counter(.postponed) == before + 1 })
    }

    @Test func `of the states of a channel that pile up while it is paused, the newest is sent`() throws {
        let (stage, daemon) = try givenOpen(["redis_results_key": "\"results\""], on: stage())
        try pause(with: update(1), stage)
        try stage.push((2...20).map { update($0) })
        #expect(try waitUntil { try stage.counter(.superseded) == 19 })
        #expect(try stage.status().states == 1 && stage.status().paced == 1)
        #expect(try stage.settles(2))
        #expect(accepted(Self.channel, stage) == [20])
        #expect(try stage.results().count { $0["reason"] == "Superseded" && $0["channel"] == Self.channel } == 19)
        #expect(try stage.counter(.retried) == 0 && stage.status().unexplained == 0)
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0 && stage.leftoverKeys() == ["results"])
    }

    @Test func `a channel waits for channel_pace between two updates, in order, and other channels and devices do not`() throws {
        let (stage, _) = try givenOpen(["channel_pace": "0.5"], on: stage())
        try stage.push((1...3).map { update($0, "") } + (0..<100).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(104))
        #expect(accepted(Self.channel, stage) == [1, 2, 3])
        let times = stage.simulator.ledger.requests(for: Self.channel).map(\.time)
        #expect(zip(times, times.dropFirst()).allSatisfy { $1 - $0 >= .milliseconds(300) })
    }

    private func call(_ stage: Stage, _ name: String, _ arguments: String...) throws -> String {
        try Call([name, stage.folder.file("settings.json")] + arguments).output
    }

    @Test func `cancel removes a state that waits, and undo returns it, but never behind a newer one`() throws {
        let (stage, daemon) = try givenOpen(on: stage())
        try pause(with: update(1, #","replaces":"score","identifier":1"#), stage)
        #expect(try call(stage, "peek").contains("ID 1"))
        #expect(try call(stage, "find", "--identifier", "1").contains("newest state"))
        #expect(try call(stage, "cancel", "--identifier", "1", "--yes").contains("1 cancelled"))
        #expect(try stage.status().states == 0 && stage.status().cancelled == 1)
        #expect(try call(stage, "audit").contains("balances"))
        #expect(try call(stage, "cancel", "--undo", "--yes").contains("1 restored"))
        #expect(try stage.settles(2))
        #expect(accepted(Self.channel, stage) == [1])
        try pause(with: update(2, #","replaces":"score","identifier":2"#), stage)
        #expect(try call(stage, "cancel", "--identifier", "2", "--yes").contains("1 cancelled"))
        try stage.push(update(3))
        #expect(try stage.settles(3))
        #expect(try call(stage, "cancel", "--undo", "--yes").contains("1 restored"))
        #expect(try waitUntil { try stage.counter(.superseded) == 1 })
        #expect(accepted(Self.channel, stage) == [1, 3])
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `a dead letter that is requeued is the newest state, without marks`() throws {
        let (stage, daemon) = try givenOpen(on: stage())
        stage.simulator.plan(token: Self.channel, answers: [.usual(503), .status(400, "BadExpirationDate")])
        try stage.push(update(1))
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(try #require(try stage.deadLetters().first).text("job")?.contains("_gapless_rank") == true)
        try stage.push(update(2))
        #expect(try stage.settles(2))
        #expect(try call(stage, "pause").contains("aused"))
        #expect(try call(stage, "dead", "requeue").contains("1 requeued"))
        #expect(try stage.command("LRANGE", stage.keys.list, "0", "-1").items?.compactMap(\.text) == [update(1)])
        #expect(try call(stage, "resume").contains("esumed"))
        #expect(try stage.settles(3) && accepted(Self.channel, stage) == [2, 1])
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `a channel by its name and by its id has one pace and one scope`() throws {
        let (stage, daemon) = try givenOpen(["channels": #"{"*": {"storage": "latest", "create": true}}"#])
        func named(_ number: Int) -> String {
            #"{"channel_name":"match-1","replaces":"score","data":{"aps":{"event":"update"},"n":\#(number)}}"#
        }
        try stage.push((1...5).map(named))
        #expect(try waitUntil { try stage.counter(.sent) + stage.counter(.superseded) == 6 })
        let record = try #require(try stage.command("HGET", stage.keys.channels, "match-1").bytes)
        let id = try #require(try JSONValue.parse(record).text("id"))
        #expect(accepted(id, stage).last == 5)
        try pause(id, with: update(6).replacing(Self.channel, with: id), stage)
        #expect(try stage.status().paced == 1)
        let requests = stage.simulator.ledger.requests(for: id).count
        try stage.push(named(7))
        #expect(try waitUntil { try stage.counter(.superseded) + stage.counter(.sent) >= 7 })
        #expect(stage.simulator.ledger.requests(for: id).count == requests, "the pause holds for the name, too")
        try stage.push(update(8).replacing(Self.channel, with: id))
        #expect(try stage.drains() && accepted(id, stage).last == 8 && !accepted(id, stage).contains(7))
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `an end goes first, an update does not take its place, and a start is sent in any case`() throws {
        let (stage, _) = try givenOpen(on: stage())
        try pause(with: update(1), stage)
        try stage.push([
            update(2), update(3, event: "end"), update(4), update(5), update(6, #","replaces":"other""#),
            update(7, #","replaces":"other""#, event: "end"),
        ])
        #expect(try waitUntil { try stage.counter(.superseded) == 4 })
        // The pause is the distance between two updates.
        #expect(try stage.settles(4))
        let order = accepted(Self.channel, stage)
        #expect(Set(order) == [3, 5, 7] && order.last == 5, "\(order)")
        #expect(try stage.deadLetters().isEmpty)
    }

    /// Returns a job with the next state of a device.
    private func nextState(of scope: Int, _ pushed: inout [Int: Int]) -> String {
        pushed[scope, default: 0] += 1
        return pushJob(
            deviceToken(scope), #""replaces":"s""#, data: #"{"aps":{"alert":"x"},"n":\#(pushed[scope, default: 0])}"#)
    }

    @Test func `with at_most_once the order holds within one daemon`() throws {
        let (stage, daemon) = try givenOpen(
            ["redis_delivery": "\"at_most_once\"", "redis_results_key": "\"results\""], on: stage())
        stage.simulator.behave { $0.devices = [DeviceRule(prefix: "", .slow(.milliseconds(20)))] }
        var pushed: [Int: Int] = [:]
        for round in 0..<30 {
            try stage.push((0..<10).map { nextState(of: (round * 7 + $0 * $0) % 8, &pushed) })
        }
        stage.simulator.plan(token: Self.channel, answers: [.usual(503), .status(429, "TooManyRequests", retryAfter: 1)])
        try stage.push((1...3).map { update($0) })
        #expect(try waitUntil { try stage.counter(.sent) + stage.counter(.superseded) == 1 + 300 + 3 })
        for (scope, last) in pushed {
            let order = accepted(deviceToken(scope), stage)
            #expect(order == order.sorted() && order.last == last && Set(order).count == order.count, "scope \(scope): \(order)")
        }
        #expect(accepted(Self.channel, stage).last == 3)
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
        var pushed: [Int: Int] = [:]
        stage.simulator.behave { $0.devices = [DeviceRule(prefix: "", .slow(.milliseconds(20)))] }
        for round in 0..<4 {
            for _ in 0..<60 {
                try stage.push((0..<10).map { _ in nextState(of: Int.random(in: 0..<40, using: &random), &pushed) })
                Poller.sleep(.milliseconds(5))
            }
            let victim = Int.random(in: 0..<2, using: &random)
            daemons[victim].crash()
            daemons[victim] = try stage.start(settings, name: "r\(round).json")
        }
        #expect(try stage.drains(atMost: .seconds(120)), "seed \(seed)")
        // Before its start a daemon does not handle SIGTERM.
        #expect(waitUntil { daemons.allSatisfy(\.hasStarted) })
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
