import Harness
import Platform
import Testing

@testable import APNSSimulator

@Suite("Faults by script")
struct FaultTests {
    @Test func `the answers of a plan apply to one token only`() throws {
        let fixture = try Fixture()
        fixture.simulator.plan(token: Fixture.deviceToken, answers: [.status(503, "ServiceUnavailable"), .usual(500)])
        #expect(try fixture.nghttp().contains(#"{"reason":"ServiceUnavailable"}"#))
        #expect(try fixture.nghttp(urls: [fixture.url("0b0b")]).contains(":status: 200"))
        #expect(try fixture.nghttp().contains(#"{"reason":"InternalServerError"}"#))
        #expect(try fixture.nghttp().contains(":status: 200"))
        #expect(fixture.simulator.ledger.acceptedCounts == [Fixture.deviceToken: 1, "0b0b": 1])
    }

    @Test func `a delayed answer is sent and recorded when it is due`() throws {
        let fixture = try Fixture()
        fixture.simulator.plan(token: Fixture.deviceToken, answers: [.delay(.milliseconds(150), then: .accept)])
        let client = try RawClient(fixture)
        let start = Instant.now
        try client.push(stream: 1)
        _ = try client.next(RawClient.Frame.headers)
        #expect(Instant.now - start >= .milliseconds(150))
        #expect(fixture.simulator.ledger.acceptedCount(token: Fixture.deviceToken) == 1)
    }

    @Test func `a silent request gets no answer, while others on the connection do`() throws {
        let fixture = try Fixture { $0.behaviour.tokenStreamLimit = 10 }
        fixture.simulator.plan(token: "aa", answers: [.silent])
        let client = try RawClient(fixture)
        try client.push(stream: 1, token: "aa")
        try client.push(stream: 3, token: "bb")
        #expect(try client.next(RawClient.Frame.headers).stream == 3)
        #expect(throws: RawClient.TimedOut.self) { try client.next(RawClient.Frame.headers, within: .milliseconds(50)) }
        #expect(fixture.simulator.totals.answers == ["silent": 1])
    }

    @Test func `a stream can be reset with any code`() throws {
        let fixture = try Fixture()
        fixture.simulator.plan(token: Fixture.deviceToken, answers: [.resetStream(code: 11)])
        let client = try RawClient(fixture)
        try client.push(stream: 1)
        #expect(try client.next(RawClient.Frame.reset).number(at: 0) == 11)
        #expect(fixture.simulator.totals.accepted == 0)
    }

    @Test(arguments: [true, false])
    func `a connection is cut before or after its push was accepted`(isRecorded: Bool) throws {
        let fixture = try Fixture()
        fixture.simulator.plan(token: Fixture.deviceToken, answers: [.closeConnection(recorded: isRecorded)])
        let client = try RawClient(fixture)
        try client.push(stream: 1)
        #expect(client.isClosed())
        #expect(fixture.simulator.ledger.acceptedCount(token: Fixture.deviceToken) == (isRecorded ? 1 : 0))
        #expect(fixture.simulator.ledger.entries.map(\.verdict) == [isRecorded ? .accepted(isAnswered: false) : .connectionCut])
    }

    @Test func `GOAWAY below a stream leaves it unprocessed, and lower streams are answered`() throws {
        let fixture = try Fixture { $0.behaviour.tokenStreamLimit = 10 }
        fixture.simulator.plan(token: "aa", answers: [.delay(.milliseconds(100), then: .accept)])
        fixture.simulator.plan(token: "bb", answers: [.goAway(.reason(.shutdown, last: .belowThis))])
        let client = try RawClient(fixture)
        for (stream, token) in [(UInt32(1), "aa"), (3, "bb"), (5, "cc")] { try client.push(stream: stream, token: token) }
        let goAway = try client.next(RawClient.Frame.goAway)
        #expect(goAway.number(at: 0) == 1 && goAway.number(at: 4) == 0)
        #expect(String(decoding: goAway.payload[8...], as: UTF8.self) == #"{"reason":"Shutdown"}"#)
        #expect(try client.next(RawClient.Frame.headers).stream == 1)
        #expect(client.isClosed())
        #expect(fixture.simulator.ledger.acceptedCounts == ["aa": 1])
    }

    @Test func `GOAWAY never reports an accepted push as unprocessed`() throws {
        let fixture = try Fixture { $0.behaviour.tokenStreamLimit = 10 }
        fixture.simulator.plan(token: "aa", answers: [.delay(.milliseconds(100), then: .goAway(GoAway(last: .belowThis)))])
        let client = try RawClient(fixture)
        try client.push(stream: 1, token: "aa")
        try client.push(stream: 3, token: "bb")
        #expect(try client.next(RawClient.Frame.headers).stream == 3)
        #expect(try client.next(RawClient.Frame.reset) == .init(type: 3, flags: 0, stream: 1, payload: [0, 0, 0, 7]))
        #expect(try client.next(RawClient.Frame.goAway).number(at: 0) == 3)
    }

    @Test func `every third request of a connection is answered and followed by GOAWAY`() throws {
        let fixture = try Fixture { $0.behaviour.goAwayEvery = 3 }
        let client = try RawClient(fixture)
        for stream in [UInt32(1), 3, 5] {
            try client.push(stream: stream)
            #expect(try client.next(RawClient.Frame.headers).stream == stream)
        }
        #expect(try client.next(RawClient.Frame.goAway).number(at: 0) == 5)
        #expect(client.isClosed())
        #expect(fixture.simulator.totals.accepted == 3 && fixture.simulator.totals.goAways == 1)
    }

    @Test func `a graceful notice precedes the final GOAWAY`() throws {
        let fixture = try Fixture()
        let client = try RawClient(fixture)
        try client.push(stream: 1)
        _ = try client.next(RawClient.Frame.headers)
        fixture.simulator.goAway(GoAway(last: .notice))
        #expect(try client.next(RawClient.Frame.goAway).number(at: 0) == UInt32(Int32.max))
        try client.push(stream: 3)
        #expect(try client.next(RawClient.Frame.headers).stream == 3)
        fixture.simulator.goAway(GoAway(code: 11, debugData: "too much"))
        let last = try client.next(RawClient.Frame.goAway)
        #expect(last.number(at: 0) == 3 && last.number(at: 4) == 11)
        #expect(client.isClosed())
    }

    @Test func `a stream above the limit is refused, and the connection stays open`() throws {
        let fixture = try Fixture()
        fixture.simulator.plan(token: "aa", answers: [.delay(.milliseconds(100), then: .accept)])
        let client = try RawClient(fixture)
        try client.push(stream: 1, token: "aa")
        try client.push(stream: 3, token: "bb")
        let reset = try client.next(RawClient.Frame.reset)
        #expect(reset.stream == 3 && reset.number(at: 0) == 7)
        #expect(try client.next(RawClient.Frame.headers).stream == 1)
        try client.push(stream: 5, token: "bb")
        #expect(try client.next(RawClient.Frame.headers).stream == 5)
        #expect(fixture.simulator.totals.refusedStreams == 1 && fixture.simulator.totals.accepted == 2)
    }

    @Test func `the limit changes while connections are open`() throws {
        let fixture = try Fixture()
        let client = try RawClient(fixture, certificate: true)
        #expect(try client.next(RawClient.Frame.settings).number(at: 8) == 1000)
        fixture.simulator.behave { $0.streamLimit = 2 }
        var settings = try client.next(RawClient.Frame.settings)
        if settings.flags == 1 { settings = try client.next(RawClient.Frame.settings) }
        #expect(settings.payload == [0, 3, 0, 0, 0, 2])
        for stream in [UInt32(1), 3, 5] { try client.sendHeaders(stream: stream, client.headers(auth: false)) }
        #expect(try client.next(RawClient.Frame.reset).stream == 5)
    }

    @Test func `a rejection lowers the limit to one stream until the next accepted push`() throws {
        let fixture = try Fixture { $0.behaviour.dropsLimitAfterRejection = true }
        fixture.simulator.plan(token: Fixture.deviceToken, answers: [.accept, .usual(400), .accept])
        let client = try RawClient(fixture)
        var limits: [UInt32] = []
        for stream in [UInt32(1), 3, 5] {
            try client.push(stream: stream)
            while true {
                let frame = try client.next()
                if frame.type == RawClient.Frame.headers { break }
                if frame.type == RawClient.Frame.settings && frame.payload.count == 6 { limits.append(frame.number(at: 2)) }
            }
        }
        #expect(limits == [1000, 1, 1000])
    }

    @Test func `a PING is answered unless the behaviour forbids it`() throws {
        let fixture = try Fixture()
        let client = try RawClient(fixture)
        try client.send(.init(type: RawClient.Frame.ping, flags: 0, stream: 0, payload: Array(1...8)))
        #expect(try client.next(RawClient.Frame.ping) == .init(type: 6, flags: 1, stream: 0, payload: Array(1...8)))
        fixture.simulator.behave { $0.ignoresPings = true }
        try client.send(.init(type: RawClient.Frame.ping, flags: 0, stream: 0, payload: Array(2...9)))
        #expect(throws: RawClient.TimedOut.self) { try client.next(RawClient.Frame.ping, within: .milliseconds(50)) }
    }

    @Test func `a new connection can get nothing, or GOAWAY instead of SETTINGS`() throws {
        let fixture = try Fixture { $0.behaviour.greeting = .nothing }
        let mute = try RawClient(fixture)
        #expect(throws: RawClient.TimedOut.self) { try mute.next(within: .milliseconds(50)) }
        fixture.simulator.behave { $0.greeting = .goAway(GoAway(debugData: "bye")) }
        let client = try RawClient(fixture)
        #expect(try client.next().type == RawClient.Frame.goAway)
        #expect(client.isClosed())
    }

    @Test func `a frozen server does not read or write, and continues afterwards`() throws {
        let fixture = try Fixture()
        let client = try RawClient(fixture)
        _ = try client.next(RawClient.Frame.settings)
        fixture.simulator.behave { $0.isFrozen = true }
        try client.push(stream: 1)
        #expect(throws: RawClient.TimedOut.self) { try client.next(RawClient.Frame.headers, within: .milliseconds(50)) }
        #expect(fixture.simulator.totals.requests == 0)
        fixture.simulator.behave { $0.isFrozen = false }
        #expect(try client.next(RawClient.Frame.headers).stream == 1)
    }

    @Test func `connections are refused for a time, and then accepted on the same port`() throws {
        let fixture = try Fixture()
        fixture.simulator.behave { $0.refusesConnections = true }
        eventually("a dial is refused") { (try? RawClient(fixture)) == nil }
        fixture.simulator.behave { $0.refusesConnections = false }
        eventually("a dial succeeds") { (try? RawClient(fixture)) != nil }
    }

    @Test(arguments: [true, false])
    func `every connection can be closed at once`(isReset: Bool) throws {
        let fixture = try Fixture()
        let clients = try (0..<3).map { _ in try RawClient(fixture) }
        eventually("all are open") { fixture.simulator.totals.openConnections == 3 }
        fixture.simulator.closeConnections(isReset: isReset)
        #expect(clients.allSatisfy { $0.isClosed() })
        eventually("all are forgotten") { fixture.simulator.totals.openConnections == 0 }
    }

    @Test func `withheld windows stop a client after 65,535 bytes`() throws {
        let fixture = try Fixture {
            $0.behaviour.withholdsWindowUpdates = true
            $0.behaviour.tokenStreamLimit = 1000
        }
        let seen = try Program.run(
            "h2load", "-n", "30", "-c", "1", "-m", "30", "-T", "1s", "-N", "1s",
            "-d", try fixture.file("b", String(repeating: " ", count: 4000)),
            "-H", "apns-topic: \(Fixture.topic)", "-H", "authorization: bearer \(Fixture.providerToken())", fixture.url()
        ).output
        #expect(seen.contains("16 succeeded"), "\(seen)")
    }
}

@Suite("A violation of HTTP/2")
struct ViolationTests {
    @Test(arguments: ["pseudo-header behind another", "upper case", "repeated pseudo-header"])
    func `ends the connection with PROTOCOL_ERROR`(fault: String) throws {
        let fixture = try Fixture()
        let client = try RawClient(fixture)
        var headers = client.headers()
        switch fault {
        case "upper case": headers.append(("Apns-Priority", "5"))
        case "repeated pseudo-header": headers.insert((":path", "/3/device/00"), at: 4)
        default: headers.append(headers.removeFirst())
        }
        try client.sendHeaders(stream: 1, headers)
        try? client.sendBody(stream: 1)
        #expect(try client.next(RawClient.Frame.goAway).number(at: 4) == 1)
        #expect(client.isClosed())
        #expect(fixture.simulator.totals.requests == 0 && fixture.simulator.totals.violations == 1)
    }

    @Test func `a complete request that is reset gets no answer, and its slot is reused`() throws {
        let fixture = try Fixture { $0.behaviour.tokenStreamLimit = 10 }
        let client = try RawClient(fixture)
        for stream in stride(from: UInt32(1), to: 81, by: 4) {
            try client.push(stream: stream, token: "aa")
            try client.send(.init(type: RawClient.Frame.reset, flags: 0, stream: stream, payload: [0, 0, 0, 8]))
            try client.push(stream: stream + 2, token: "bb")
        }
        eventually("every other push is accepted") { fixture.simulator.ledger.acceptedCount(token: "bb") == 20 }
    }

    @Test func `a connection without HTTP/2 is closed`() throws {
        let fixture = try Fixture()
        let client = try RawClient(fixture)
        try client.send(.init(type: RawClient.Frame.settings, flags: 1, stream: 9, payload: [1]))
        #expect(client.isClosed())
        eventually("the connection is forgotten") { fixture.simulator.totals.openConnections == 0 }
    }
}
