import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("Campaigns of the whole daemon", .blocking)
struct DaemonCampaignTests {
    private static func job(_ members: String = "") -> String {
        #"{"tokens_from":"audience","campaign":"sale",\#(members.isEmpty ? "" : members + ",")"data":{"aps":{"alert":"Hi"}}}"#
    }

    private func handOver(_ tokens: [String], _ stage: Stage) throws {
        for start in stride(from: 0, to: tokens.count, by: 500) {
            _ = try stage.command(["RPUSH", "audience"] + tokens[start..<min(start + 500, tokens.count)])
        }
    }

    private func campaign(_ stage: Stage) throws -> CampaignStatus? { try stage.status().campaigns.first { $0.id == "sale" } }

    @Test func `every token gets its push, and the figures and records name the campaign`() throws {
        let (stage, daemon) = try givenOpen(["redis_results_key": "\"results\""])
        stage.simulator.plan(token: deviceToken(1), answers: [.status(410, "Unregistered", timestamp: 5)])
        stage.simulator.plan(token: deviceToken(2), answers: [.usual(503)])
        try handOver((0..<600).map(deviceToken) + ["zz"], stage)
        try stage.push(Self.job(#""identifier":7"#))
        #expect(
            try waitUntil(atMost: .seconds(60)) { try campaign(stage)?.remaining == 0 && stage.status().campaigns.count == 1 })
        let figures = try #require(try campaign(stage))
        #expect(
            figures.audience == 601 && figures.sent == 599 && figures.dead == 2 && figures.retried == 1 && figures.ended != nil)
        #expect(stage.simulator.ledger.acceptedCounts.count == 600, "the first push, and 599 tokens")
        #expect(stage.simulator.totals.accepted == 600)
        let letters = try stage.deadLetters()
        let single = { (token: String) in
            #"{"token":"\#(token)","campaign":"sale","identifier":7,"data":{"aps":{"alert":"Hi"}}}"#
        }
        #expect(Set(letters.map { $0.text("job") }) == [single(deviceToken(1)), single("zz")])
        #expect(letters.allSatisfy { $0.text("campaign") == "sale" && $0.number("identifier") == 7 })
        #expect(try stage.feedback().map { $0.text("campaign") } == ["sale"])
        let results = try stage.command("XLEN", "results").integer
        #expect(results == 602)
        #expect(try stage.status().unexplained == 0 && stage.command("EXISTS", "audience").integer == 0)
        #expect(daemon.says(#"Campaign "sale" begins: 601 tokens."#))
    }

    @Test func `after kill -9 in the middle, the next process sends the rest`() throws {
        let stage = try Stage()
        let first = try stage.startOpen()
        stage.simulator.behave { $0.script.latency = .milliseconds(5)...(.milliseconds(15)) }
        try handOver((0..<3000).map(deviceToken), stage)
        try stage.push(Self.job())
        #expect(stage.accepts(1000))
        first.crash()
        let left = try stage.status()
        #expect(left.inFlight > 0)
        try stage.start()
        #expect(waitUntil(atMost: .seconds(60)) { stage.simulator.ledger.acceptedCounts.count == 3001 })
        #expect(try stage.drains())
        #expect(stage.simulator.totals.accepted - 3001 <= left.inFlight)
        #expect(try waitUntil { try campaign(stage)?.sent == 3000 })
        #expect(try campaign(stage)?.remaining == 0 && stage.status().unexplained == 0)
        #expect(try stage.counter(.recovered) == left.inFlight)
    }

    @Test func `a campaign whose pushes fail stops by itself, and resume continues it`() throws {
        let (stage, daemon) = try givenOpen()
        stage.simulator.behave { $0.script.failures = [.init(.status(410, "Unregistered", timestamp: 5), 1)] }
        try handOver((0..<3000).map(deviceToken), stage)
        try stage.push(Self.job(#""stop_at":0.1"#))
        #expect(daemon.says(#"The campaign "sale" is paused by gaplessd: stop_at: "#))
        #expect(try waitUntil { try stage.status().inFlight == 0 })
        let dead = try stage.status().dead
        #expect(100 <= dead && dead <= 1000)
        stage.simulator.behave { $0.script.failures = [] }
        var client = try RedisClient(settings: QueueSettings(list: Stage.list, server: .unix(path: stage.redis.socketPath)))
        #expect(try PauseList(stage.keys).resume(.campaign("sale"), &client))
        #expect(try waitUntil(atMost: .seconds(60)) { try campaign(stage)?.remaining == 0 })
        #expect(try campaign(stage)?.sent == 3000 - dead && stage.status().unexplained == 0)
    }

    @Test func `a wrong environment burns no token`() throws {
        let (stage, daemon) = try given()
        stage.simulator.behave { $0.script.failures = [.init(.usual(400), 1)] }
        try handOver((0..<500).map(deviceToken), stage)
        try stage.push(Self.job())
        #expect(daemon.says("wrong environment or topic?"))
        let status = try stage.status()
        #expect(status.dead == 0 && status.feedback == 0)
        #expect(try campaign(stage)?.remaining == 500)
        #expect(daemon.stop()?.status == 0)
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `a key that is missing or of another type is a bad job with a sentence`() throws {
        let (stage, _) = try given()
        try stage.push(Self.job())
        try stage.command("SET", "audience", "x")
        try stage.push(#"{"tokens_from":"audience","data":{}}"#)
        try stage.push(#"{"tokens_from":"\#(Stage.list)","data":{}}"#)
        #expect(try waitUntil { try stage.status().dead == 3 || stage.status().dead == 2 && stage.status().backlog == 0 })
        let reasons = try stage.deadLetters().compactMap { $0.text("reason") }
        #expect(reasons.contains { $0.hasSuffix(#"which belongs to gaplessd"#) })
        #expect(reasons.contains { $0.hasSuffix(#"of the type string; expected a list, set or sorted set"#) })
    }

    @Test func `the calls show a campaign, cancel its tokens and restore them`() throws {
        let stage = try CallStage()
        #expect(try stage.call("campaign", "list").lines == ["There are no campaigns."])
        #expect(try stage.call("campaign", "show", "sale").status == 1)
        #expect(try stage.call("campaign", "show").status == 64)
        _ = try stage.redis(["RPUSH", stage.keys.audience("sale")] + (0..<40).map { "\($0)" })
        try stage.redis(
            "HSET", stage.keys.campaign("sale"), "kind", "list", "audience", "50", "left", "40", "sent", "9", "dead", "1",
            "reason:Unregistered", "1", "created", "1795218609000", "stop", "50")
        try stage.redis("ZADD", stage.keys.campaigns, "1795218609000", "sale")
        #expect(
            try stage.call("campaign", "list").lines[0].hasPrefix("sale  running  audience 50  sent 9  dead 1  remaining 40  "))
        for (call, option) in [("pause", "--campaign"), ("cancel", "--campaign"), ("dead", "--campaign"), ("find", "--campaign")]
        {
            let words = ["gaplessd", call, stage.settings, option, ""]
            let result = try Call(["---completion", call, "--", option, "\(words.count - 1)", "0"] + words)
            #expect(result.output == "sale\n" && result.errors == "", "\(call)")
        }
        let created = "created       \(LocalTime.zoned(1_795_218_609))"
        #expect(try stage.call("campaign", "show", "sale").lines.contains(created))
        let shown = try JSONValue.parse(Array(stage.call("campaign", "show", "sale", "--json").output.utf8))
        #expect(shown.number("audience") == 50 && shown.number("remaining") == 40 && shown.text("state") == "running")
        #expect(shown["dead_reasons"]?["Unregistered"]?.integerValue == 1)
        #expect(try stage.call("cancel", "--campaign", "sale", "--yes").lines.last == "40 cancelled")
        #expect(
            try stage.call("campaign", "list").lines[0].hasPrefix(
                "sale  ended  audience 50  sent 9  dead 1  cancelled 40  remaining 0"))
        #expect(try stage.call("cancel", "--undo", "--campaign", "sale", "--limit", "20").lines.last == "20 restored")
        #expect(try stage.elements(stage.keys.audience("sale")) == (0..<20).map { "\($0)" })
        #expect(try stage.call("cancel", "--undo").lines.last == "20 restored", "without a condition, all that was cancelled")
        #expect(try stage.elements(stage.keys.audience("sale")) == (0..<40).map { "\($0)" })
        #expect(try stage.call("pause", "--campaign", "sale").status == 0)
        #expect(try stage.call("campaign", "list", "--json").output.contains(#""state": "paused""#))
        #expect(try stage.call("audit").output.contains("unknown") == false)
    }
}
