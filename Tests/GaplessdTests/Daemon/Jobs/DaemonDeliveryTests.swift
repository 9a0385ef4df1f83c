import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("The delivery of a job", .blocking)
struct DaemonDeliveryTests {
    /// 63 digits, as in the documentation of the original.
    private static let sampleToken = "071cd8fdfdfd36cb14d3c0ca49d8fdc9bad8ecd2a8cf4c8dad4b4bb9b7f7a1c"

    @Test func `the sample job of the original, with 63 digits, gets the default headers`() throws {
        let stage = try Stage()
        let data = #"{"aps": {"alert": "You got your emails.", "badge": 9,"sound":"bingbong.aiff"}, "acme1": "bar", "n": 1.50}"#
        let daemon = try stage.start()
        let before = unixTime()
        try stage.open(daemon)
        try stage.push(#"{"token": "\#(Self.sampleToken)", "data": \#(data)}"#)
        #expect(try stage.drains())
        let push = try #require(stage.simulator.ledger.entries.last)
        #expect(push.token == Self.sampleToken)
        #expect(push.topic == Stage.topic)
        #expect(push.pushType == "alert")
        #expect(push.priority == nil || push.priority == "10")
        let expiration = try #require(push.expiration.flatMap { Int64($0) })
        #expect((before + 7200...unixTime() + 7201).contains(expiration))
        #expect(push.body == Array(data.utf8))
        #expect(push.collapseID == nil)
        #expect(stage.simulator.ledger.acceptedCount(token: Self.sampleToken) == 1)
        #expect(try stage.deadLetters().isEmpty)
    }

    @Test func `the headers follow the job, and the body is the bytes of the producer`() throws {
        let stage = try Stage()
        let odd = #"{ "aps" : {"alert":"caf\u00e9 \ud83d\ude00 \/","n":12345678901234567890,"z":-0,"e":1.50e2}, "a":1,"a":2 }"#
        let longest = String(repeating: "0f", count: 500)
        let id = "6F9619FF-8B86-D011-B42D-00CF4FC964FF"
        let jobs = [
            pushJob("01", #""expiry":0"#, data: odd),
            pushJob("02", #""expires_at":4102444800"#),
            pushJob("03", data: #"{"aps":{"content-available":1},"x":1}"#),
            pushJob("04", data: #"{"aps":{"content-available":1,"alert":"a"}}"#),
            pushJob("05", #""push_type":"voip","topic":"com.example.app.voip","priority":5"#),
            pushJob("06", #""collapse_id":"news \u00fc","apns_id":"\#(id)","push_type":"background","priority":1"#),
            pushJob("07", #""identifier":null,"expiry":null,"topic":null,"push_type":null,"priority":null,"tokens":null"#),
            #"{"token":"ff","data":{},"token":"08","data":{"aps":{"alert":"the last wins"}}}"#,
            pushJob("AbCdEf09"),
            pushJob(longest, #""collapse_id":"\#(String(repeating: "c", count: 64))""#, data: Self.payload(of: 4096)),
            pushJob("10", #""push_type":"voip""#, data: Self.payload(of: 5120)),
        ]
        try stage.start()
        try stage.push(jobs)
        #expect(try stage.drains())
        #expect(try stage.deadLetters().isEmpty)
        let pushes = Dictionary(uniqueKeysWithValues: stage.simulator.ledger.entries.map { ($0.token.lowercased(), $0) })
        #expect(pushes["01"]?.body == Array(odd.utf8))
        #expect(pushes["01"]?.expiration == "0")
        #expect(pushes["02"]?.expiration == "4102444800")
        #expect(pushes["03"]?.pushType == "background")
        #expect(pushes["03"]?.priority == "5")
        #expect(pushes["04"]?.pushType == "alert")
        #expect(pushes["05"]?.pushType == "voip")
        #expect(pushes["05"]?.topic == "com.example.app.voip")
        #expect(pushes["05"]?.priority == "5")
        #expect(pushes["06"]?.collapseID == "news ü")
        #expect(pushes["06"]?.apnsID.lowercased() == id.lowercased())
        #expect(pushes["06"]?.priority == "1")
        #expect(pushes["07"]?.topic == Stage.topic)
        #expect(pushes["07"]?.pushType == "alert")
        #expect(pushes["08"]?.body == Array(#"{"aps":{"alert":"the last wins"}}"#.utf8))
        #expect(pushes["ff"] == nil)
        #expect(pushes["abcdef09"] != nil)
        #expect(pushes[longest]?.body?.count == 4096)
        #expect(pushes[longest]?.collapseID?.utf8.count == 64)
        #expect(pushes["10"]?.body?.count == 5120)
    }

    private static func payload(of bytes: Int) -> String {
        #"{"aps":{"alert":""# + String(repeating: "x", count: bytes - 20) + #""}}"#
    }

    @Test func `not_before delays a job unchanged, and a time in milliseconds causes a warning`() throws {
        let (stage, daemon) = try given()
        #expect(daemon.says(" is open, "))
        let due = unixTime() + 2
        let far = pushJob("0d", #""not_before":4102444800.5"#)
        let inMilliseconds = pushJob("0d", #""identifier":"m1","not_before":1795338849000"#)
        try stage.push([pushJob("0c", #""not_before":\#(due)"#), far, inMilliseconds, pushJob("0e", #""not_before":1"#)])
        #expect(stage.accepts(1))
        #expect(stage.simulator.ledger.entries.map(\.token) == ["0e"])
        #expect(try waitUntil { try stage.status().delayed == 3 })
        #expect(stage.accepts(2))
        #expect(unixTime() >= due)
        #expect(stage.simulator.ledger.acceptedCount(token: "0c") == 1)
        #expect(try stage.delayed() == [far, inMilliseconds])
        let warning = #"A job (ID "m1") is delayed: not_before is in seconds, and this value is after the year 5000"#
        #expect(daemon.complaints.contains { $0.hasPrefix("[Gapless W]") && $0.contains(warning) })
        let late = pushJob("0d", #""expires_at":1895300000000"#)
        try File.write("\(inMilliseconds)\n\(late)\n", to: stage.folder.file("jobs"))
        let call = try Call(["enqueue", stage.folder.file("settings.json"), stage.folder.file("jobs")])
        #expect(call.status == 0 && call.errors.contains("jobs:1: not_before is in seconds"), "\(call.errors)")
        #expect(call.errors.contains("jobs:2: expires_at is in seconds"), "\(call.errors)")
        #expect(
            try stage.command(
                "ZSCORE", stage.keys.delayed, stage.command("ZRANGE", stage.keys.delayed, "0", "0").items?.first?.text ?? ""
            ).text == "4102444800500")
        #expect(try stage.counter(.retried) == 0)
    }
}

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
        let (stage, daemon) = try given(
            ["apps": #"{"beta": \#(appJSON(topic: "com.example.beta"))}"#],
            on: Stage { $0.topics = [Stage.topic, "com.example.beta"] })
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
    }
}
