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
        // PHP escapes slashes.
        try stage.push([mine, job(#"bm\/zZQ=="#)] + (0..<50).map { pushJob(deviceToken($0)) })
        #expect(try stage.settles(53))
        let entry = try #require(stage.simulator.ledger.requests(for: Self.channel).first)
        #expect(entry.isBroadcast && entry.topic == Stage.topic && entry.pushType == "liveactivity")
        #expect(entry.apnsID == id && entry.priority == "5" && entry.expiration == "\(expiration)" && entry.collapseID == nil)
        #expect(entry.body == Array(data.utf8))
        let plain = try #require(stage.simulator.ledger.requests(for: Self.silent).first)
        #expect(plain.pushType == "liveactivity" && plain.priority == "10" && plain.expiration == "0", "valid for every channel")
        #expect(waitUntil { stage.simulator.totals.connections == 2 })
        #expect(daemon.says("Sent: \(mine)."))
        let own = try #require(try stage.results().first { $0["channel"] == Self.channel })
        #expect(own["token"] == Self.channel && own["apns_id"] == id && own["status"] == "200")
    }

    @Test func `it is retried and dead-lettered as any other push, but a 429 is not counted`() throws {
        let stage = try stage()
        let pause = Answer.status(429, "TooManyRequests", retryAfter: 1)
        stage.simulator.plan(token: Self.channel, answers: [.usual(503), pause])
        let daemon = try stage.start()
        let lost = job("bm/0aGVyZQ==")
        let invalid = job(Self.channel, #""collapse_id":"x""#)
        try stage.push([job(Self.channel, #""identifier":9"#), lost, job(Self.silent, #""expiry":60"#), invalid])
        #expect(try stage.settles(1))
        #expect(stage.simulator.ledger.requests(for: Self.channel).count == 3)
        #expect(try stage.counter(.retried) == 1 && stage.counter(.postponed) == 1)
        #expect(daemon.says("SendPayload Error (ID 9): 503 ServiceUnavailable. Retrying count (1)."))
        let letters = try stage.deadLetters()
        #expect(letters.count == 3 && letters.contains { $0.text("reason") == "BadExpirationDate" })
        #expect(letters.contains { $0.text("job") == invalid })
        #expect(daemon.says("collapse_id is for tokens, not for a channel"))
        let letter = try #require(letters.first { $0.text("reason") == "ChannelNotRegistered" })
        #expect(letter.text("token") == "bm/0aGVyZQ==" && letter.text("job") == lost && letter.number("status") == 400)
        #expect(try stage.status().feedback == 0)
    }
}
