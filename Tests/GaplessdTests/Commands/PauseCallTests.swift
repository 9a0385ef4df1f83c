import Harness
import JSONBytes
import Testing

@testable import RedisQueue
@testable import gaplessd

@Suite("gaplessd pause and resume")
struct PauseCallTests {
    private static let apps = [
        "apps":
            #"{"news": {"apns_topic": "com.example.news", "apns_auth_key_path": "missing.p8", "apns_auth_key_id": "SIMKEY0001", "#
            + #""apns_team_id": "SIMTEAM001"}}"#
    ]

    /// The pauses that `status` reports.
    private func pauses(_ stage: CallStage) throws -> [JSONValue] {
        let report = try JSONValue.parse(Array(stage.call("status", "--json").output.utf8))
        guard case .array(let pauses)? = report["paused"] else { throw HarnessError("no pauses: \(report)") }
        return pauses
    }

    @Test func `pauses of every list and of one app are stored, shown and ended`() throws {
        let stage = try CallStage(lists: ["one", "two"], Self.apps)
        #expect(try stage.call("pause", "--reason", "bad \"campaign\"").status == 0)
        #expect(try stage.call("pause", "--app", "news", "--list", "two", "--for", "2h").status == 0)
        let pauses = try pauses(stage)
        #expect(pauses.map { $0["list"]?.stringValue } == ["one", "two", "two"])
        #expect(pauses.map { $0["app"]?.stringValue } == [nil, nil, "news"])
        #expect(pauses[0]["reason"]?.stringValue == "bad \"campaign\"" && pauses[0]["until"] == .null)
        let span = (pauses[2]["until"]?.integerValue ?? 0) - (pauses[2]["since"]?.integerValue ?? 0)
        #expect(span == 7200)
        #expect(pauses.allSatisfy { $0["by"]?.stringValue?.contains("@") == true })
        #expect(try stage.call("status").lines.count { $0.hasPrefix("paused ") } == 3)
        #expect(try stage.call("audit").status == 0, "the hash is no unknown key, and a pause is no fault")
        let resume = try stage.call("resume")
        #expect(resume.status == 0 && resume.lines.count == 3)
        #expect(try stage.call("resume", "--app", "news").lines.count == 2)
        #expect(try stage.call("resume").status == 0, "nothing is paused")
        #expect(try stage.redis("KEYS", "*paused*").items?.isEmpty == true)
    }

    @Test func `--json prints an object for each list`() throws {
        let stage = try CallStage(lists: ["one", "two"], Self.apps)
        let pauses = try stage.call("pause", "--app", "news", "--for", "2h", "--reason", "test", "--json").lines
            .map { try JSONValue.parse(Array($0.utf8)) }
        #expect(pauses.map { $0["list"]?.stringValue } == ["one", "two"])
        #expect(pauses.allSatisfy { $0["app"]?.stringValue == "news" && $0["reason"]?.stringValue == "test" })
        #expect(pauses.allSatisfy { ($0["until"]?.integerValue ?? 0) - ($0["since"]?.integerValue ?? 0) == 7200 })
        #expect(try stage.call("pause", "--list", "two", "--json").lines.count == 1)
        let resumed = try stage.call("resume", "--json").lines.map { try JSONValue.parse(Array($0.utf8)) }
        #expect(resumed.map { $0["resumed"]?.boolValue } == [false, true])
        #expect(resumed.allSatisfy { $0["app"] == .null && $0["paused"]?.line.contains("\"app\": \"news\"") == true })
    }

    @Test func `times have a zone`() {
        #expect(LocalTime.zoned(1_795_218_609).wholeMatch(of: #/\d{4}/\d\d/\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d/#) != nil)
        #expect(LocalTime.zoned(.max) == "\(Int64.max)")
        let pause = QueuePause(.list, record: Array(#"{"until": 1795218609000}"#.utf8))
        #expect(PauseNote(pause).sentence == "paused until \(LocalTime.zoned(1_795_218_609))")
    }

    @Test func `a campaign is paused and resumed by its name`() throws {
        let stage = try CallStage()
        #expect(
            try stage.call("pause", "--campaign", "sale", "--reason", "wrong price").lines[0].hasPrefix("calls: campaign sale: "))
        let pauses = try pauses(stage)
        #expect(pauses.map { $0["campaign"]?.stringValue } == ["sale"] && pauses[0]["app"] == .null)
        #expect(try stage.call("status").output.contains("campaign sale: paused by "))
        #expect(try stage.call("resume").lines.count == 2, "another pause stays")
        #expect(try stage.call("resume", "--campaign", "sale").lines == ["calls: campaign sale: resumed"])
        #expect(try stage.redis("KEYS", "*paused*").items?.isEmpty == true)
    }

    @Test(arguments: [
        ["--app", "(top level)", "--campaign", "sale"], ["--campaign", ""], ["--app", "unknown"], ["--for", "soon"],
        ["--for", "0"], ["--for", "-5"], ["--list", "other"], ["--for"],
    ])
    func `a wrong option is wrong usage`(options: [String]) throws {
        let stage = try CallStage()
        let (process, _, err) = try stage.start("pause", options)
        #expect(process.wait(atMost: .seconds(60))?.status == 64)
        #expect(!File.read(err).isEmpty)
        #expect(try stage.redis("KEYS", "*paused*").items?.isEmpty == true)
    }

    @Test(arguments: [("30", 30.0), ("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86_400)])
    func `a span has seconds or a unit`(text: String, seconds: Double) {
        #expect(SpanArgument(argument: text)?.duration == .seconds(seconds))
    }

    @Test(arguments: ["", "s", "-1", "1w", "1e3", "1.2.3", "inf", "9999999999999d"])
    func `another text is no span`(text: String) { #expect(SpanArgument(argument: text) == nil) }
}
