import APNSSimulator
import Harness
import JSONBytes
import Testing

@testable import gaplessd

@Suite("gaplessd explain")
struct ExplainCallTests {
    private func explain(_ job: String, _ options: String...) throws -> Call {
        let stage = try Stage()
        let path = stage.folder.file("job")
        try File.write(job + "\n", to: path)
        return try Call(["explain", try stage.write(), path] + options)
    }

    @Test func `prints the path, the headers and the size, and sends nothing`() throws {
        let call = try explain(
            #"{"token":"ab01","data":{"aps":{}},"expires_at":4000000000,"collapse_id":"c","priority":5,"#
                + #""apns_id":"0A1B2C3D-0000-0000-0000-000000000001"}"#)
        #expect(call.status == 0)
        let lines = call.output.split(separator: "\n").map(String.init)
        #expect(lines.contains("app               (top level)") && lines.contains("path              /3/device/ab01"))
        #expect(lines.contains("chosen by         the settings have no other app"))
        #expect(lines.contains("apns-topic        \(Stage.topic)") && lines.contains("apns-push-type    alert"))
        #expect(lines.contains("apns-priority     5") && lines.contains("apns-collapse-id  c"))
        #expect(lines.contains { $0.hasPrefix("apns-expiration   4000000000  ") })
        #expect(lines.contains("payload           10 bytes of at most 4,096"))
        #expect(lines.contains("apns-id           0a1b2c3d-0000-0000-0000-000000000001"))
    }

    @Test func `--json prints one object, and counts valid and invalid tokens`() throws {
        let call = try explain(#"{"tokens":["ab","xyz","cd"],"data":{"aps":{}}}"#, "--json")
        let report = try JSONValue.parse(Array(call.output.utf8))
        #expect(call.status == 0 && report["requests"]?.integerValue == 2)
        #expect(report["bad_tokens"]?.line == #"["xyz: token is not hex"]"#)
        #expect(report["headers"]?["apns-push-type"]?.stringValue == "alert")
    }

    @Test func `names the origin of the headers that a job does not name`() throws {
        let update = #""data":{"aps":{"event":"update","content-state":{}}}}"#
        let call = try explain(#"{"token":"ab","# + update)
        let lines = call.output.split(separator: "\n").map(String.init)
        #expect(lines.contains("apns-topic        \(Stage.topic).push-type.liveactivity"))
        #expect(lines.contains("derived           apns-push-type from aps.event with aps.content-state"))
        #expect(lines.contains("derived           apns-topic from the bundle ID of the app and the push type"))
        let report = try JSONValue.parse(Array(try explain(#"{"token":"ab","priority":5,"# + update, "--json").output.utf8))
        #expect(report["derived"]?.text("apns-topic") == "the bundle ID of the app and the push type")
        #expect(report["derived"]?.text("apns-push-type") == "aps.event with aps.content-state")
        #expect(report["derived"]?["apns-priority"] == nil)
        let named = try explain(#"{"token":"ab","push_type":"alert","topic":"com.own","priority":5,"# + update)
        #expect(!named.output.contains("derived"))
        let bad = try explain(#"{"token":"ab","data":{"aps":{"content-changed":true}}}"#)
        #expect(bad.status == 65)
        #expect(bad.output.contains("push_type is missing: data has content-changed, so it is widgets or controls"))
    }

    @Test func `a job with the name of a channel has the expiration of its storage`() throws {
        let stage = try Stage()
        let settings = try stage.write(["channels": #"{"a-*": {"storage": "latest", "create": true}, "b-*": {"create": true}}"#])
        func explain(_ name: String, _ expiry: String = "") throws -> (lines: [String], report: JSONValue) {
            let data = #"{"aps":{"event":"update","content-state":{}}}"#
            let path = stage.folder.file("job")
            try File.write(#"{"channel_name":"\#(name)"\#(expiry),"data":\#(data)}"#, to: path)
            let call = try Call(["explain", settings, path])
            let report = try JSONValue.parse(Array(try Call(["explain", settings, path, "--json"]).output.utf8))
            return (call.output.split(separator: "\n").map(String.init), report)
        }
        let before = unixTime()
        let latest = try explain("a-1")
        let expiration = Int64(latest.report["headers"]?.text("apns-expiration") ?? "") ?? 0
        #expect((before + 8 * 3600...unixTime() + 8 * 3600).contains(expiration))
        #expect(latest.lines.contains("apns-channel-id   <id of a-1>"))
        #expect(latest.lines.contains(#"channel           "a-1", created at its first use without a record, storage latest"#))
        #expect(latest.report.text("channel_name") == "a-1" && latest.report["creates_channel"] == .bool(true))
        let short = try explain("a-1", #","expires_at":4000000000"#).report["headers"]?.text("apns-expiration")
        #expect((Int64(short ?? "") ?? 0) <= unixTime() + 8 * 3600, "at most 8 hours")
        let none = try explain("b-1", #","expiry":60"#)
        #expect(none.lines.contains("apns-expiration   0"))
        let missing = try explain("c-1")
        #expect(missing.lines.contains(#"channel           "c-1", which needs a record: channels creates none"#))
        #expect(missing.report["creates_channel"] == .bool(false))
    }

    @Test(arguments: [
        ("", "(top level)", "the job names neither an app nor a topic"),
        (#","app":"news""#, "news", "the job names the app"),
        (#","topic":"com.example.news""#, "news", "the app has the topic com.example.news"),
        (#","topic":"com.example.news.voip","push_type":"voip""#, "news", "the app has the topic com.example.news"),
        (#","topic":"com.cert.more""#, "cert", "the app has the topic com.cert.more, by its certificate"),
        (#","topic":"com.other""#, "(top level)", "no other app has the topic of the job"),
    ])
    func `names the app and why it was chosen`(selector: String, app: String, reason: String) throws {
        let stage = try Stage()
        try Credentials.make(.init(topics: ["com.cert", "com.cert.more"])).write(to: stage.folder.file("cert"))
        let key = #""apns_auth_key_path": "credentials/AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001", "#
        let apps =
            #"{"news": {\#(key) "apns_team_id": "SIMTEAM001", "apns_topic": "com.example.news"}, "#
            + #""cert": {"apns_cert_path": "cert/client.pem", "apns_key_path": "cert/client-key.pem"}}"#
        let path = stage.folder.file("job")
        try File.write(#"{"token":"ab","data":{"aps":{}}\#(selector)}"#, to: path)
        let settings = try stage.write(["apps": apps])
        let call = try Call(["explain", settings, path])
        #expect(call.output.contains("app               \(app)\nchosen by         \(reason)\n"), "\(call.output)\(call.errors)")
        let report = try JSONValue.parse(Array(Call(["explain", settings, path, "--json"]).output.utf8))
        #expect(report["app"]?.stringValue == app && report["chosen_by"]?.stringValue == reason)
    }

    @Test func `many invalid tokens are one dead letter`() throws {
        let bad = (1...11).map { "\"z\($0)\"" }.joined(separator: ",")
        let lines = try explain(#"{"tokens":["ab",\#(bad)],"data":{}}"#).output.split(separator: "\n")
        #expect(lines.contains("requests          1, one for each valid token"))
        #expect(lines.contains("dead letter       11 invalid tokens together; first fault: z1: token is not hex"))
        let call = try explain(#"{"tokens":[\#(bad)],"data":{}}"#)
        let reason = "11 tokens are invalid; first fault: token is not hex at byte 12"
        #expect(call.output == "dead letter: Parsing apns structure error: \(reason)\n" && call.status == 65)
    }

    @Test(arguments: [
        ("{", "Json unmarshal error"), (#"{"data":{}}"#, "token is missing"),
        (#"{"token":"ab","data":{},"expires_at":1}"#, "Expired"), (#"{"token":"ab","data":{},"app":"no"}"#, "app"),
    ])
    func `a dead letter is reported with its reason and 65`(job: String, reason: String) throws {
        let call = try explain(job)
        #expect(call.status == 65)
        #expect(call.output.hasPrefix("dead letter: ") && call.output.contains(reason))
    }

    @Test(arguments: ["", "\n"])
    func `a job over 24 MiB is a dead letter`(end: String) throws {
        let half = String(repeating: " ", count: 12 << 20)
        let call = try explain(#"{"token":"ab",\#(half)\#(end)\#(half)"data":{}}"#)
        #expect(call.status == 65 && call.output == "dead letter: JobTooLarge\n")
    }

    @Test func `a file that cannot be read is a failure`() throws {
        let stage = try Stage()
        #expect(try Call(["explain", try stage.write(), stage.folder.file("none")]).status == 1)
    }
}
