import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("A job with a channel is a broadcast", .blocking)
struct DaemonBroadcastTests {
    private static let channel = "dHN0LXNyY2gtY2hubA=="
    private static let silent = "bm/zZQ=="

    private func stage() throws -> Stage {
        try Stage {
            $0.channels = [
                .init(app: Stage.topic, id: Self.channel), .init(app: Stage.topic, id: Self.silent, stores: false),
            ]
        }
    }

    private func job(_ channel: String = Self.channel, _ members: String = "", data: String = #"{"aps":{"event":"update"}}"#)
        -> String
    {
        #"{"channel":"\#(channel)",\#(members.isEmpty ? "" : members + ",")"data":\#(data)}"#
    }

    @Test func `it uses the path of its app, the headers of Apple, and the same sessions as device pushes`() throws {
        let stage = try stage()
        let daemon = try stage.startOpen(["redis_results_key": "\"results\"", "log_successes": "true"])
        let id = "0a0b0c0d-1111-2222-3333-444455556666"
        let expiration = unixTime() + 600
        let data = #"{"aps": {"event": "update", "n": 1.50}}"#
        let mine = job(Self.channel, #""apns_id":"\#(id)","expires_at":\#(expiration),"priority":5,"identifier":7"#, data: data)
        try stage.push([mine] + (0..<50).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(52))
        let entry = try #require(stage.simulator.ledger.requests(for: Self.channel).first)
        #expect(entry.isBroadcast && entry.topic == Stage.topic && entry.pushType == "liveactivity")
        #expect(entry.apnsID == id && entry.priority == "5" && entry.expiration == "\(expiration)" && entry.collapseID == nil)
        #expect(entry.body == Array(data.utf8))
        #expect(waitUntil { stage.simulator.totals.connections == 2 })
        #expect(daemon.says("Sent: \(mine)."))
        let results = try stage.command("XRANGE", "results", "-", "+").items ?? []
        let fields = results.map { ($0.items?[1].items ?? []).compactMap(\.text) }
        let own = try #require(fields.first { $0.contains(Self.channel) })
        #expect(own.contains(id) && own.contains("200") && own.contains("channel"))
        #expect(own.count { $0 == Self.channel } == 2, "as token and as channel")
    }

    @Test func `its defaults are valid for every channel`() throws {
        let stage = try stage()
        try stage.start()
        // PHP escapes slashes.
        try stage.push(job(#"bm\/zZQ=="#))
        #expect(stage.accepts(1))
        let entry = try #require(stage.simulator.ledger.requests(for: Self.silent).first)
        #expect(entry.pushType == "liveactivity" && entry.priority == "10" && entry.expiration == "0")
        #expect(try stage.drains())
    }

    @Test func `it is retried and dead-lettered as any other push, but a 429 is not counted`() throws {
        let stage = try stage()
        let pause = Answer.status(429, "TooManyRequests", retryAfter: 1)
        stage.simulator.plan(token: Self.channel, answers: [.usual(503), pause])
        let daemon = try stage.start()
        let lost = job("bm/0aGVyZQ==")
        let refused = job(Self.silent, #""expiry":60"#)
        try stage.push([job(Self.channel, #""identifier":9"#), lost, refused])
        #expect(try stage.settles(1))
        #expect(stage.simulator.ledger.requests(for: Self.channel).count == 3)
        #expect(try stage.counter(.retried) == 1 && stage.counter(.postponed) == 1)
        #expect(daemon.says("SendPayload Error (ID 9): 503 ServiceUnavailable. Retrying count (1)."))
        let letters = try stage.deadLetters()
        #expect(Set(letters.map { $0.text("reason") }) == ["ChannelNotRegistered", "BadExpirationDate"])
        let letter = try #require(letters.first { $0.text("reason") == "ChannelNotRegistered" })
        #expect(letter.text("token") == "bm/0aGVyZQ==" && letter.text("job") == lost && letter.number("status") == 400)
        #expect(try stage.status().feedback == 0)
    }

    @Test(arguments: [
        (#""collapse_id":"x""#, "collapse_id is for tokens, not for a channel"),
        (#""topic":"com.example/x""#, "topic is no bundle id, and a channel belongs to one"),
        (#""topic":"com.example.app.voip""#, "topic has the suffix of a push type, and a channel belongs to a bundle id"),
        (#""channel":"no base64""#, "channel is not base64"), (#""channel":"""#, "channel is empty"),
        (#""channel":7"#, "channel is not a string"),
    ])
    func `an invalid one becomes a dead letter byte for byte`(member: String, fault: String) throws {
        let stage = try stage()
        let daemon = try stage.start()
        let bad = job(Self.channel, member)
        try stage.push(bad)
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(try stage.deadLetters().first?.text("job") == bad)
        #expect(daemon.says(fault))
        #expect(stage.simulator.totals.requests == 0)
    }

    /// Jobs of the original Gapless may have such a member.
    @Test(arguments: [#""token":"0a""#, #""tokens":["0a"]"#])
    func `a channel next to a token is ignored`(target: String) throws {
        let stage = try stage()
        let daemon = try stage.start()
        for channel in [#""no channel""#, "7", #""AAAA""#] {
            try stage.push(#"{\#(target),"channel":\#(channel),"collapse_id":"x","data":{"aps":{"alert":"Hi"}}}"#)
        }
        #expect(stage.accepts(3), "\(daemon.standardError)")
        #expect(stage.simulator.ledger.requests(for: "0a").count == 3)
        #expect(try stage.drains())
        #expect(try stage.status().dead == 0)
    }

    @Test func `its payload has at most 5,120 bytes`() throws {
        let stage = try stage()
        let daemon = try stage.start()
        let full = #"{"a":"\#(String(repeating: "x", count: 5120 - 8))"}"#
        try stage.push([job(data: full), job(data: full.replacing("x\"", with: "xx\""))])
        #expect(stage.accepts(1))
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(daemon.says("data is 5121 bytes long, over the 5120"))
        #expect(stage.simulator.totals.requests == 1)
    }
}
