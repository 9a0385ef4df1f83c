import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("Every push type through the daemon", .blocking)
struct DaemonPushTypeTests {
    /// Push type, suffix of the topic, default priority, and whether the push is not stored by default.
    private static let rows = [
        ("alert", "", "10", false), ("background", "", "5", false), ("mdm", "", "10", false), ("voip", ".voip", "10", true),
        ("complication", ".complication", "10", false), ("fileprovider", ".pushkit.fileprovider", "10", false),
        ("location", ".location-query", "10", false), ("liveactivity", ".push-type.liveactivity", "10", false),
        ("pushtotalk", ".voip-ptt", "10", true), ("widgets", ".push-type.widgets", "10", false),
        ("controls", ".push-type.controls", "10", false),
    ]

    /// The simulator compares push type and topic as APNs does.
    @Test func `APNs accepts each type with its topic, from the job or from the settings`() throws {
        let stage = try Stage { $0.topics = [Stage.topic, "com.example.beta"] }
        let apps = """
            {"beta": {"apns_auth_key_path": "credentials/AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001",
                      "apns_team_id": "SIMTEAM001", "apns_topic": "com.example.beta"}}
            """
        let daemon = try stage.start(["apps": apps])
        for (index, row) in Self.rows.enumerated() {
            let token = 10 * index
            try stage.push([
                pushJob(deviceToken(token), #""push_type":"\#(row.0)""#),
                pushJob(deviceToken(token + 1), #""push_type":"\#(row.0)","topic":"com.example.beta""#),
            ])
            if row.1.isEmpty { continue }
            try stage.push(pushJob(deviceToken(token + 2), #""topic":"com.example.beta\#(row.1)""#))
        }
        #expect(try stage.settles(3 * Self.rows.count - 3), "\(daemon.standardError)")
        #expect(try stage.status().dead == 0)
        let connections = Dictionary(grouping: stage.simulator.ledger.entries, by: \.connection).values
        #expect(connections.allSatisfy { Set($0.compactMap { $0.topic?.contains("beta") }).count == 1 })
        for (index, row) in Self.rows.enumerated() {
            for kind in 0..<(row.1.isEmpty ? 2 : 3) {
                let entry = try #require(stage.simulator.ledger.requests(for: deviceToken(10 * index + kind)).last)
                #expect(entry.topic == (kind == 0 ? Stage.topic : "com.example.beta") + row.1)
                #expect(entry.pushType == row.0 && entry.priority == row.2)
                #expect((entry.expiration == "0") == row.3, "\(row.0)")
            }
        }
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `a refused topic that was derived for the push type does not hold the app`() throws {
        let (stage, daemon) = try givenOpen()
        stage.simulator.plan(token: "0a", answers: [.reason(.topicDisallowed)])
        let jobs = [
            pushJob("0a", #""push_type":"complication""#),
            pushJob("0b", #""push_type":"voip","topic":"com.example.app.voip-ptt""#),
        ]
        try stage.push(jobs + [pushJob("0c")])
        #expect(try stage.settles(2))
        #expect(try Set(stage.deadLetters().map { $0.text("job") }) == Set(jobs))
        #expect(!daemon.standardError.contains("jobs stay in the queue"))
        #expect(daemon.says("push_type voip does not go with the topic com.example.app.voip-ptt at byte "))
        #expect(daemon.stop()?.status == 0)
    }
}
