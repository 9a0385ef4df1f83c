import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("A push to the sandbox", .blocking)
struct DaemonSandboxTests {
    @Test func `has the id of Apple's delivery log in its result and in its line`() throws {
        let stage = try Stage { $0.environment = .sandbox }
        stage.simulator.plan(token: "ee", answers: [.reason(.badCollapseId)])
        let daemon = try stage.startOpen(
            ["redis_results_key": "\"results\"", "log_successes": "true", "log_format": "\"json\""])
        try stage.push([pushJob("ab"), pushJob("ee")])
        #expect(try waitUntil { try stage.command("XLEN", "results").integer == 3 })
        for result in try stage.results() {
            let id = try #require(result["apns_unique_id"])
            #expect(!id.isEmpty && daemon.says(#""apns_unique_id": "\#(id)""#))
        }
    }
}

@Suite("A job without a push type", .blocking)
struct DaemonPushRowTests {
    /// A payload, the push type that it tells, and the suffix of the topic.
    private static let payloads = [
        ("alert", #"{"aps":{"alert":"x"}}"#), ("background", #"{"aps":{"content-available":1}}"#),
        ("liveactivity", #"{"aps":{"timestamp":1,"event":"update","content-state":{"a":1}}}"#),
        ("liveactivity", #"{"aps":{"timestamp":1,"event":"start","attributes-type":"T","attributes":{},"alert":"x"}}"#),
        ("mdm", #"{"mdm":"magic"}"#), ("alert", #"{"container-identifier":"c","domain":"d"}"#),
        (nil, #"{"aps":{"content-changed":true}}"#),
    ]
    private static let suffixes = [
        ("voip", ".voip"), ("complication", ".complication"), ("fileprovider", ".pushkit.fileprovider"),
        ("location", ".location-query"), ("liveactivity", ".push-type.liveactivity"), ("pushtotalk", ".voip-ptt"),
        ("widgets", ".push-type.widgets"), ("controls", ".push-type.controls"),
    ]
    /// Each kind of token belongs to one topic: its index begins the token.
    private static let kinds = [Stage.topic] + suffixes.map { Stage.topic + $0.1 }

    private struct Row {
        var job: String
        var token: String
        /// The type and topic of the request; `nil` for a job that is refused with a sentence.
        var expected: (pushType: String, topic: String)?
        var fitsToken: Bool
    }

    /// Every payload with every form of the topic, for a token of the right kind and of another one.
    private var rows: [Row] {
        var rows: [Row] = []
        for (told, payload) in Self.payloads {
            for (named, suffix) in [(nil, nil), (nil, "")] + Self.suffixes.map({ (Optional($0.0), Optional($0.1)) }) {
                let pushType = named ?? told
                let topic = Stage.topic + (pushType.flatMap { type in Self.suffixes.first { $0.0 == type }?.1 } ?? "")
                // The kind of token that fits, and the next one.
                let fitting = Self.kinds.firstIndex(of: topic) ?? 0
                for kind in [fitting, (fitting + 1) % Self.kinds.count] {
                    let token = "\(kind)0" + deviceToken(rows.count)
                    let members = suffix.map { #""topic":"\#(Stage.topic)\#($0)""# } ?? ""
                    rows.append(
                        Row(
                            job: pushJob(token, members, data: payload), token: token, expected: pushType.map { ($0, topic) },
                            fitsToken: kind == fitting))
                }
            }
        }
        return rows
    }

    @Test func `leaves with the type and topic that Apple requires or is refused with a sentence, and holds no app`() throws {
        let stage = try Stage()
        stage.simulator.behave { behaviour in
            behaviour.devices = Self.kinds.enumerated().map { DeviceRule(prefix: "\($0)0", .topic($1)) }
        }
        let daemon = try stage.startOpen()
        let rows = rows
        // An acceptance after each row: whatever APNs refuses, the token or the type is the cause.
        for (number, row) in rows.enumerated() {
            try stage.push([row.job, pushJob("00" + deviceToken(100_000 + number))])
        }
        let accepted = rows.count { $0.expected != nil && $0.fitsToken }
        // A suspect response is settled by a later acceptance.
        #expect(try stage.accept { try stage.status().dead == rows.count - accepted } && stage.drains())
        let letters = try stage.deadLetters()
        #expect(letters.count == rows.count - accepted)
        for row in rows {
            let letter = letters.first { $0.text("job") == row.job }
            guard let (pushType, topic) = row.expected else {
                let sentence = "push_type is missing: data has content-changed, so it is widgets or controls"
                #expect(letter?.text("reason")?.contains(sentence) == true, "\(row.job)")
                continue
            }
            let request = try #require(stage.simulator.ledger.requests(for: row.token).last, "\(row.job)")
            #expect(request.pushType == pushType && request.topic == topic, "\(row.job)")
            #expect(letter?.text("reason") == (row.fitsToken ? nil : "DeviceTokenNotForTopic"), "\(row.job)")
        }
        #expect(!daemon.standardError.contains("held"), "\(daemon.standardError.suffix(500))")
    }
}
