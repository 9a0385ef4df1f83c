import Platform
import Testing

@testable import APNSSimulator

@Suite("Kinds of GOAWAY")
struct GoAwayTests {
    /// Returns the frames after three pushes. The second push gets this answer; the first and third are slow.
    private func frames(_ answer: Answer) throws -> (fixture: Fixture, frames: [RawClient.Frame], isClosed: Bool) {
        let fixture = try Fixture { $0.behaviour.tokenStreamLimit = 10 }
        fixture.simulator.plan(token: "aa", answers: [.delay(.milliseconds(30), then: .accept)])
        fixture.simulator.plan(token: "bb", answers: [answer])
        let client = try RawClient(fixture)
        try client.push(stream: 1, token: "aa")
        try client.push(stream: 3, token: "bb")
        var frames: [RawClient.Frame] = []
        while let frame = try? client.next(within: .milliseconds(500)) { frames.append(frame) }
        return (fixture, frames.filter { [1, 3, 7].contains($0.type) }, client.isClosed(within: .milliseconds(10)))
    }

    @Test func `graceful: a notice and the final GOAWAY, and every stream is answered`() throws {
        let (first, second) = try GoAway.kind("graceful")
        let seen = try frames(.goAway(first, then: second))
        let goAways = seen.frames.filter { $0.type == RawClient.Frame.goAway }
        #expect(goAways.map { $0.number(at: 0) } == [UInt32(Int32.max), 3])
        #expect(Set(seen.frames.filter { $0.type == RawClient.Frame.headers }.map(\.stream)) == [1, 3])
        #expect(seen.isClosed)
        #expect(seen.fixture.simulator.totals.goAways == 2 && seen.fixture.simulator.totals.accepted == 2)
    }

    @Test func `abrupt: the last id covers every stream, and none is answered`() throws {
        let seen = try frames(.goAway(try GoAway.kind("abrupt").0))
        #expect(seen.frames.map(\.type) == [RawClient.Frame.goAway])
        #expect(seen.frames.first?.number(at: 0) == 3)
        #expect(seen.isClosed)
        #expect(seen.fixture.simulator.totals.accepted == 0)
    }

    @Test func `twice: two frames with decreasing ids`() throws {
        let (first, second) = try GoAway.kind("twice:Shutdown")
        let seen = try frames(.goAway(first, then: second))
        let goAways = seen.frames.filter { $0.type == RawClient.Frame.goAway }
        #expect(goAways.count == 2)
        #expect(goAways.allSatisfy { String(decoding: $0.payload[8...], as: UTF8.self) == #"{"reason":"Shutdown"}"# })
        #expect(goAways[1].number(at: 0) <= goAways[0].number(at: 0))
        #expect(seen.isClosed)
    }

    @Test func `limit: code 7 and plain text`() throws {
        let seen = try frames(.goAway(try GoAway.kind("limit").0))
        let goAway = try #require(seen.frames.first { $0.type == RawClient.Frame.goAway })
        #expect(goAway.number(at: 0) == 1 && goAway.number(at: 4) == 7)
        #expect(String(decoding: goAway.payload[8...], as: UTF8.self) == "Maximum active streams violated for this endpoint.")
        #expect(seen.fixture.simulator.ledger.acceptedCounts == ["aa": 1])
    }

    @Test func `zero: every stream is unprocessed`() throws {
        let seen = try frames(.goAway(try GoAway.kind("zero:too much of it").0))
        let goAway = try #require(seen.frames.first)
        #expect(goAway.number(at: 0) == 0)
        #expect(String(decoding: goAway.payload[8...], as: UTF8.self) == "too much of it")
        #expect(seen.isClosed && seen.fixture.simulator.totals.accepted == 0)
    }

    @Test func `middle: lower streams are answered, higher streams are not`() throws {
        let fixture = try Fixture {
            $0.behaviour.tokenStreamLimit = 10
            $0.behaviour.script.latency = .milliseconds(300)...(.milliseconds(300))
        }
        let client = try RawClient(fixture)
        for stream in [1, 3, 5, 7, 9, 11, 13] as [UInt32] { try client.push(stream: stream, token: "0\(stream)0") }
        try client.send(.init(type: RawClient.Frame.ping, flags: 0, stream: 0, payload: Array(repeating: 7, count: 8)))
        _ = try client.next(RawClient.Frame.ping)  // after all of them
        fixture.simulator.goAway(try GoAway.kind("middle/2:Shutdown").0)
        var frames: [RawClient.Frame] = []
        while let frame = try? client.next(within: .milliseconds(500)) { frames.append(frame) }
        let goAway = try #require(frames.first { $0.type == RawClient.Frame.goAway })
        #expect(goAway.number(at: 0) == 5 && goAway.number(at: 4) == 2)
        #expect(Set(frames.filter { $0.type == RawClient.Frame.headers }.map(\.stream)) == [1, 3, 5])
        #expect(fixture.simulator.totals.accepted == 3)
    }

    @Test func `the kinds are parsed`() throws {
        #expect(try Answer("goaway") == .goAway(GoAway(last: .belowThis)))
        #expect(try Answer("goaway:all:Shutdown") == .goAway(.reason(.shutdown)))
        #expect(try Answer("5ms+goaway:limit") == .delay(.milliseconds(5), then: .goAway(.tooManyStreams)))
        #expect(try Script.Share("goaway:abrupt:1%").answer == .goAway(GoAway(isAbrupt: true)))
        #expect(try Answer("goaway:abrupt/2:Shutdown") == .goAway(.reason(.shutdown, code: 2, isAbrupt: true)))
        #expect(try Answer("goaway:graceful/1") == .goAway(GoAway(last: .notice), then: GoAway(code: 1)))
        for text in ["goaway:never", "goaway:limit:x", "goaway:limit/7", "goaway:all/", "goaway:all/x"] {
            #expect(throws: ScriptSyntaxError.self) { try Answer(text) }
        }
    }
}

@Suite("Turns and devices")
struct TurnTests {
    @Test func `the n-th request and every n-th get their answers`() throws {
        let script = Script(turns: [.init(2, .silent), .init(3, repeats: true, .usual(503))])
        var player = ScriptPlayer(script)
        let answers = (1...7).map { player.answer(for: "0\($0)".utf8) }
        #expect(answers == [.accept, .silent, .usual(503), .accept, .accept, .usual(503), .accept])
    }

    @Test func `a plan whose last answer repeats never ends`() throws {
        var player = ScriptPlayer(Script(tokenPlans: [try .init("ab=503,410*")]))
        #expect((0..<4).map { _ in player.answer(for: "ab01".utf8) } == [.usual(503), .usual(410), .usual(410), .usual(410)])
    }

    @Test(arguments: [
        ("good", Answer?.none), ("unregistered", .status(410, "Unregistered")), ("expired", .reason(.expiredToken)),
        ("topic:com.example.app", nil), ("topic:com.example.other", .reason(.deviceTokenNotForTopic)),
        ("production", nil), ("sandbox", .reason(.badDeviceToken)), ("silent", .silent),
        ("slow:20ms", .delay(.milliseconds(20), then: .accept)), ("limited:0/1s", .reason(.tooManyRequests)),
    ])
    func `the state of a device determines the answer`(state: String, answer: Answer?) throws {
        var player = DeviceRulePlayer()
        player.rules = [try DeviceRule("aB=\(state)")]
        let topic = Array("com.example.app".utf8)[...]
        #expect(player.answer(token: Array("ab01".utf8), topic: topic, .production, now: .now) == answer)
        #expect(player.answer(token: Array("cd01".utf8), topic: topic, .production, now: .now) == nil)
    }

    @Test func `each token has its own push limit`() throws {
        var player = DeviceRulePlayer()
        player.rules = [try DeviceRule("=limited:2/10s")]
        let start = Instant.now
        func isLimited(_ token: String, _ second: Int) -> Bool {
            player.answer(token: Array(token.utf8), topic: nil, .production, now: start + .seconds(second)) != nil
        }
        #expect([0, 1, 2, 9, 10, 11, 12].map { isLimited("aa", $0) } == [false, false, true, true, false, false, true])
        #expect(!isLimited("bb", 2))
    }

    @Test(arguments: ["good", "x=good", "ab=", "ab=nothing", "ab=slow", "ab=limited:3", "ab=good:1", "ab=topic"])
    func `an invalid rule is rejected`(text: String) {
        #expect(throws: ScriptSyntaxError.self) { try DeviceRule(text) }
    }

    @Test(arguments: ["3", "0=503", "x=503", "3=nope"])
    func `an invalid turn is rejected`(text: String) {
        #expect(throws: ScriptSyntaxError.self) { try Script.Turn(text, repeats: false) }
    }
}
