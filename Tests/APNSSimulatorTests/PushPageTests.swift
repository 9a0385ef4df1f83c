import Harness
import JSONBytes
import Testing

@testable import APNSSimulator

@Suite("The page with the latest pushes")
struct PushPageTests {
    private let fixture: Fixture
    private let page: PushPage

    init() throws {
        fixture = try Fixture { $0.recentPushes = 4 }
        page = try PushPage(of: fixture.simulator, host: "127.0.0.1", port: 0)
    }

    private func push(_ body: String, _ headers: [String] = [], token: String = Fixture.deviceToken) throws {
        _ = try fixture.nghttp(
            headers: ["apns-topic: \(Fixture.topic)"] + headers, body: body, urls: [fixture.url(token)])
    }

    private func pushes(_ query: String = "") throws -> [JSONValue] {
        let response = try #require(HTTPTalk.get("/api/pushes\(query)", port: page.port))
        #expect(response.headers["content-type"] == "application/json")
        guard case .array(let pushes) = try JSONValue.parse(Array(response.body.utf8))["pushes"] else { return [] }
        return pushes
    }

    @Test func `a push has its text, headers, provider token, payload and verdict`() throws {
        try push(
            #"{"aps":{"alert":{"title":"T","subtitle":"S","body":"B"},"badge":3,"sound":"default"}}"#,
            ["apns-collapse-id: c1", "apns-priority: 5"])
        let push = try #require(try pushes().first)
        for (key, value) in ["title": "T", "subtitle": "S", "body": "B", "kind": "alert", "verdict": "200", "reason": ""] {
            #expect(push[key]?.stringValue == value, "\(key)")
        }
        #expect(push["accepted"] == .bool(true))
        #expect(push["status"]?.integerValue == 200)
        #expect(push["token"]?.stringValue == Fixture.deviceToken)
        #expect(push["headers"]?["apns-collapse-id"]?.stringValue == "c1")
        #expect(push["headers"]?["apns-priority"]?.stringValue == "5")
        #expect(push["headers"]?["authorization"] == nil)
        #expect(push["provider_token"]?["header"]?["kid"]?.stringValue == "SIMKEY0001")
        #expect(push["provider_token"]?["claims"]?["iss"]?.stringValue == "SIMTEAM001")
        #expect(push["payload"]?["aps"]?["badge"]?.integerValue == 3)
        #expect(push["marks"] == .array([.string("badge 3"), .string("sound default")]))
    }

    @Test func `neither the page nor the JSON contains the signature of a provider token`() throws {
        let token = try Fixture.providerToken()
        let signature = try #require(token.split(separator: ".").last)
        _ = try fixture.nghttp(
            headers: ["apns-topic: \(Fixture.topic)", "authorization: bearer \(token)"], auth: false)
        #expect(try pushes().count == 1)
        for path in ["/", "/api/pushes"] {
            let body = try #require(HTTPTalk.get(path, port: page.port)?.body)
            #expect(body.contains("SIMKEY0001"))
            #expect(!body.contains(signature))
        }
    }

    @Test func `the latest pushes are kept, newest first`() throws {
        for number in 1...9 { try push(#"{"aps":{"alert":"\#(number)"}}"#) }
        #expect(try pushes().compactMap { $0["body"]?.stringValue } == ["9", "8", "7", "6"])
        #expect(try pushes().compactMap { $0["number"]?.integerValue } == [9, 8, 7, 6])
    }

    @Test func `a filter selects by text and by kind`() throws {
        try push(#"{"aps":{"alert":"Grüße & mehr"}}"#)
        try push(#"{"aps":{"content-available":1}}"#, ["apns-push-type: background", "apns-priority: 5"])
        try push(#"{"aps":{"alert":"Hello"}}"#, token: "zz")
        #expect(try pushes("?q=gr%C3%BC%c3%9fe+%26").count == 1)
        #expect(try pushes("?q=BADDEVICETOKEN").compactMap { $0["reason"]?.stringValue } == ["BadDeviceToken"])
        #expect(try pushes("?kind=silent").compactMap { $0["kind"]?.stringValue } == ["silent"])
        #expect(try pushes("?kind=alert&q=hello").count == 1)
        #expect(try pushes("?q=nothing").isEmpty)
        let html = try #require(HTTPTalk.get("/?q=gr%C3%BC", port: page.port)?.body)
        #expect(html.contains("Grüße &amp; mehr"))
        #expect(!html.contains("Hello"))
        #expect(html.contains(#"value="grü""#))
    }

    @Test func `DELETE clears the pushes, and other methods and paths do nothing`() throws {
        try push(#"{"aps":{"alert":"Hello"}}"#)
        #expect(HTTPTalk.get("/", port: page.port, method: "DELETE")?.status == 404)
        #expect(HTTPTalk.get("/api/pushes", port: page.port, method: "POST")?.status == 405)
        #expect(HTTPTalk.get("/other", port: page.port)?.status == 404)
        #expect(try pushes().count == 1)
        #expect(HTTPTalk.get("/api/pushes", port: page.port, method: "DELETE")?.status == 200)
        #expect(try pushes().isEmpty)
        try push(#"{"aps":{"alert":"Hello"}}"#)
        #expect(try pushes().compactMap { $0["number"]?.integerValue } == [2])
    }

    @Test func `a payload and a header cannot add markup to the page`() throws {
        try push(#"{"aps":{"alert":{"title":"<script>alert(1)</script>","body":"<b>'\""}}}"#, ["apns-collapse-id: <i>"])
        let html = try #require(HTTPTalk.get("/", port: page.port)?.body)
        #expect(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
        #expect(!html.contains("<script>"))
        #expect(!html.contains("<i>\""))
        #expect(html.contains("Content-Security-Policy"))
        #expect(HTTPTalk.get("/?q=%22%3E%3Cscript%3E", port: page.port)?.body.contains("<script>") == false)
    }

    @Test func `a request that names another host is refused`() throws {
        let talk = try #require(HTTPTalk(port: page.port))
        talk.send("GET /api/pushes HTTP/1.1\r\nHost: rebound.example\r\n\r\n")
        #expect(talk.readToEnd()?.hasPrefix("HTTP/1.1 421 ") == true)
    }

    @Test func `without a limit of recent pushes none is kept`() throws {
        let other = try Fixture()
        _ = try other.nghttp()
        #expect(other.simulator.ledger.totals.requests == 1)
        #expect(other.simulator.recent.all.count == 0)
    }
}

@Suite("The card of a push")
struct LockScreenCardTests {
    private func card(_ payload: String, _ type: String? = nil) -> LockScreenCard {
        LockScreenCard(payload: Array(payload.utf8), type: type)
    }

    @Test func `has a kind by push type and payload`() {
        #expect(card(#"{"aps":{"alert":"a"}}"#).kind == .alert)
        #expect(card(#"{"aps":{"alert":"a","content-available":1}}"#, "alert").kind == .alert)
        #expect(card(#"{"aps":{"content-available":1}}"#).kind == .silent)
        #expect(card(#"{"aps":{}}"#, "background").kind == .silent)
        #expect(card(#"{"aps":{"event":"update"}}"#, "liveactivity").kind == .liveActivity)
        #expect(card("{}", "voip").kind == .voip)
        #expect(card("{}", "mdm").kind == .other)
    }

    @Test func `shows the keys of texts that only the app has`() {
        let card = card(#"{"aps":{"alert":{"title-loc-key":"TITLE","loc-key":"BODY"}}}"#)
        #expect(card.title == "TITLE")
        #expect(card.body == "BODY")
    }

    @Test(arguments: ["", "[1]", "{", #"{"aps":7}"#, #"{"aps":{"alert":7,"sound":null,"badge":"x"}}"#])
    func `of any payload exists`(payload: String) {
        let card = card(payload)
        #expect(card.title == "" && card.body == "")
        #expect(card.marks == (["", "{"].contains(payload) ? ["the payload is not JSON"] : []))
    }

    @Test func `has the content state of a Live Activity, or its attributes`() {
        let update = card(
            #"{"aps":{"event":"update","content-state":"#
                + #"{"score":"2:1","minute":71,"over":false,"teams":["A","B"],"x":{"y":null}}}}"#,
            "liveactivity")
        #expect(update.content.map(\.name) == ["score", "minute", "over", "teams", "x"])
        #expect(update.content.map(\.value) == ["2:1", "71", "false", "A, B", "y null"])
        let start = card(#"{"aps":{"event":"start","content-state":{},"attributes":{"match":"A–B"}}}"#, "liveactivity")
        #expect(start.content.map(\.value) == ["A–B"])
        let members = (0..<100).map { "\"k\($0)\":\"\(String(repeating: "x", count: 500))\"" }.joined(separator: ",")
        let long = card("{\"aps\":{\"content-state\":{\(members)}}}", "liveactivity").content
        #expect(long.count == 13 && long[12].value == "88 more" && long.allSatisfy { $0.value.count <= 80 })
        #expect(card(#"{"aps":{"alert":"a","content-state":7}}"#).content.isEmpty)
    }

    @Test func `has the critical sound by name`() {
        #expect(card(#"{"aps":{"alert":"a","sound":{"critical":1,"name":"s.caf"}}}"#).marks == ["sound s.caf"])
    }
}
