import Glibc
import Harness
import Platform
import Testing

@testable import APNSSimulator

@Suite("Faults of a connection")
struct ConnectionFaultTests {
    @Test(arguments: [true, false])
    func `a half-open connection stays silent and open, while others are served`(isRecorded: Bool) throws {
        let fixture = try Fixture()
        fixture.simulator.plan(token: "aa", answers: [.halfOpen(recorded: isRecorded)])
        let client = try RawClient(fixture)
        try client.push(stream: 1, token: "aa")
        eventually("it was seen") { fixture.simulator.totals.requests == 1 }
        try client.send(.init(type: RawClient.Frame.ping, flags: 0, stream: 0, payload: Array(1...8)))
        #expect(throws: RawClient.TimedOut.self) { try client.next(RawClient.Frame.ping, within: .milliseconds(100)) }
        #expect(fixture.simulator.totals.openConnections == 1)
        #expect(fixture.simulator.ledger.acceptedCount(token: "aa") == (isRecorded ? 1 : 0))
        let other = try RawClient(fixture)
        try other.push(stream: 1, token: "bb")
        #expect(try other.next(RawClient.Frame.headers).stream == 1)
    }

    @Test func `a tarpit accepts the connection without a TLS handshake`() throws {
        let fixture = try Fixture { $0.behaviour.greeting = .tarpit }
        let context = try TLSContext(clientTrusting: fixture.folder.file("ca.pem"), identity: nil, protocols: ["h2"])
        let socket = try Socket(connectingTo: try SocketAddress.resolve(host: "127.0.0.1", port: fixture.simulator.port)[0])
        var tls = try TLSStream(client: socket, host: "localhost", wantedProtocol: "h2", context)
        var poller = Poller()
        poller.add(tls.descriptor, for: .write)
        poller.wait(until: .now + .seconds(5))
        #expect(tls.handshake() == .needsRead)
        var reader = Poller()
        reader.add(tls.descriptor, for: .read)
        reader.wait(until: .now + .milliseconds(150))
        #expect(tls.handshake() == .needsRead)
        #expect(fixture.simulator.totals.connections == 0)
        fixture.simulator.behave { $0.greeting = .settings }
        let next = try RawClient(fixture)
        #expect(try next.next().type == RawClient.Frame.settings)
    }

    @Test func `connections above the connect limit are reset for a time`() throws {
        let fixture = try Fixture {
            $0.behaviour.connectLimit = .init(count: 3, window: .seconds(60), block: .milliseconds(300))
        }
        let clients = try (0..<3).map { _ in try RawClient(fixture) }
        #expect(clients.count == 3)
        #expect((try? RawClient(fixture)) == nil)
        eventually("the reset is counted") { fixture.simulator.totals.blockedConnections >= 1 }
        eventually("a connection is accepted again") { (try? RawClient(fixture)) != nil }
    }

    @Test func `an idle connection gets GOAWAY with IdleTimeout`() throws {
        let fixture = try Fixture { $0.behaviour.idleLimit = .milliseconds(80) }
        let client = try RawClient(fixture)
        try client.push(stream: 1)
        let start = Instant.now
        let goAway = try client.next(RawClient.Frame.goAway)
        #expect(Instant.now - start >= .milliseconds(60))
        #expect(String(decoding: goAway.payload[8...], as: UTF8.self) == #"{"reason":"IdleTimeout"}"#)
        #expect(client.isClosed())
    }

    @Test func `after an idle time the next request gets 400 IdleTimeout, or all get 500`() throws {
        // With a limit of zero, every connection is idle for too long.
        let fixture = try Fixture {
            $0.behaviour.idleLimit = .zero
            $0.behaviour.idleFault = .badRequest
        }
        let first = try RawClient(fixture)
        try first.push(stream: 1)
        #expect(String(decoding: try first.next(RawClient.Frame.data).payload, as: UTF8.self) == #"{"reason":"IdleTimeout"}"#)
        #expect(first.isClosed())
        fixture.simulator.behave { $0.idleFault = .internalError }
        let second = try RawClient(fixture)
        for stream in [UInt32(1), 3] {
            try second.push(stream: stream)
            let body = try second.next(RawClient.Frame.data).payload
            #expect(String(decoding: body, as: UTF8.self) == #"{"reason":"InternalServerError"}"#)
        }
        fixture.simulator.behave { $0.idleLimit = .seconds(60) }
        let third = try RawClient(fixture)
        try third.push(stream: 1)
        #expect(try third.next(RawClient.Frame.headers).flags & 1 == 1)
    }

    @Test func `one connection answers only 500, the others do not`() throws {
        let fixture = try Fixture { $0.behaviour.connections = [.init(2, .usual(500))] }
        let clients = try (0..<3).map { _ in try RawClient(fixture) }
        fixture.simulator.plan(token: Fixture.deviceToken, answers: [.accept])
        for stream in [UInt32(1), 3] {
            try clients[1].push(stream: stream)
            let body = try clients[1].next(RawClient.Frame.data).payload
            #expect(String(decoding: body, as: UTF8.self) == #"{"reason":"InternalServerError"}"#)
        }
        for client in [clients[0], clients[2]] {
            try client.push(stream: 1)
            #expect(try client.next(RawClient.Frame.headers).flags & 1 == 1)
        }
        fixture.simulator.behave { $0.connections = [] }
        try clients[1].push(stream: 5)
        #expect(try clients[1].next(RawClient.Frame.headers).flags & 1 == 1)
    }

    @Test func `every second connection gets the scripted answer from its first push on`() throws {
        let fixture = try Fixture { $0.behaviour.connections = [.init(2, repeats: true, .resetStream(code: 2))] }
        let clients = try (0..<4).map { _ in try RawClient(fixture) }
        for (index, client) in clients.enumerated() {
            try client.push(stream: 1)
            let wanted = index % 2 == 0 ? RawClient.Frame.headers : RawClient.Frame.reset
            #expect(try client.next(wanted).type == wanted)
        }
    }

    @Test func `split frames and records of one byte contain the same answers`() throws {
        let fixture = try Fixture {
            $0.behaviour.splitsFrames = true
            $0.behaviour.recordBytes = 1
        }
        fixture.simulator.plan(token: Fixture.deviceToken, answers: [.usual(410)])
        let client = try RawClient(fixture)
        try client.push(stream: 1)
        let body = #"{"reason":"Unregistered","timestamp":"#
        var frames: [RawClient.Frame] = []
        while frames.last?.flags != 1 || frames.last?.type != RawClient.Frame.data { frames.append(try client.next()) }
        frames.removeAll { $0.type == RawClient.Frame.settings }
        #expect(frames.prefix(6).map(\.type) == [RawClient.Frame.headers, 9, 9, 9, 9, RawClient.Frame.data])
        #expect(frames.prefix(5).map(\.flags) == [0, 0, 0, 0, 4])
        let data = frames.dropFirst(5)
        #expect(data.allSatisfy { $0.payload.count == 1 } && data.dropLast().allSatisfy { $0.flags == 0 })
        #expect(String(decoding: data.flatMap(\.payload), as: UTF8.self).hasPrefix(body))
    }

    @Test func `a small initial window is announced and enforced`() throws {
        let fixture = try Fixture { $0.behaviour.initialWindow = 100 }
        let client = try RawClient(fixture)
        let settings = try client.next(RawClient.Frame.settings)
        let entries = stride(from: 0, to: settings.payload.count, by: 6).map { Array(settings.payload[$0..<$0 + 6]) }
        #expect(entries.contains([0, 4, 0, 0, 0, 100]), "\(entries)")
        // The window applies after the acknowledgement.
        try client.send(.init(type: RawClient.Frame.settings, flags: 1, stream: 0, payload: []))
        func body(_ count: Int) -> String { #"{"aps":"\#(String(repeating: "x", count: count - 10))"}"# }
        try client.sendHeaders(stream: 1, client.headers())
        try client.sendBody(stream: 1, body(100))
        #expect(try client.next(RawClient.Frame.headers).stream == 1)
        try client.sendHeaders(stream: 3, client.headers())
        try client.sendBody(stream: 3, body(101))
        let reset = try client.next(RawClient.Frame.reset)
        #expect(reset.stream == 3 && reset.number(at: 0) == 3, "FLOW_CONTROL_ERROR")
    }
}

@Suite("Stream limits")
struct StreamLimitTests {
    @Test func `a stream above the limit can be reset twice`() throws {
        let fixture = try Fixture { $0.behaviour.overLimit = .refuseTwice }
        fixture.simulator.plan(token: "aa", answers: [.silent])
        let client = try RawClient(fixture)
        try client.push(stream: 1, token: "aa")
        try client.push(stream: 3, token: "bb")
        let resets = try (0..<2).map { _ in try client.next(RawClient.Frame.reset) }
        #expect(resets.map(\.stream) == [3, 3] && resets.map { $0.number(at: 0) } == [7, 5])
    }

    @Test func `a stream above the limit can cause GOAWAY with code 7, while lower streams are answered`() throws {
        let fixture = try Fixture { $0.behaviour.overLimit = .goAway }
        fixture.simulator.plan(token: "aa", answers: [.delay(.milliseconds(50), then: .accept)])
        let client = try RawClient(fixture)
        try client.push(stream: 1, token: "aa")
        try client.push(stream: 3, token: "bb")
        let goAway = try client.next(RawClient.Frame.goAway)
        #expect(goAway.number(at: 0) == 1 && goAway.number(at: 4) == 7)
        #expect(try client.next(RawClient.Frame.headers).stream == 1)
        #expect(client.isClosed())
        #expect(fixture.simulator.ledger.acceptedCounts == ["aa": 1])
    }

    @Test func `only an acknowledged limit can be violated`() throws {
        let fixture = try Fixture()
        for token in ["aa", "bb", "cc"] { fixture.simulator.plan(token: token, answers: [.silent]) }
        let client = try RawClient(fixture)
        _ = try client.next(RawClient.Frame.settings)
        try client.push(stream: 1, token: "aa")
        try client.push(stream: 3, token: "bb")
        _ = try client.next(RawClient.Frame.reset)
        #expect(fixture.simulator.totals.limitViolations == 0 && fixture.simulator.totals.refusedStreams == 1)
        try client.send(.init(type: RawClient.Frame.settings, flags: 1, stream: 0, payload: []))
        try client.push(stream: 5, token: "cc")
        _ = try client.next(RawClient.Frame.reset)
        #expect(fixture.simulator.totals.limitViolations == 1)
    }

    @Test func `a limit walk stays within its bounds and is announced`() throws {
        let fixture = try Fixture {
            $0.behaviour.tokenStreamLimit = 1000
            $0.behaviour.limitWalk = .init(interval: .milliseconds(2), bounds: 0...7)
        }
        let client = try RawClient(fixture)
        _ = try client.next(RawClient.Frame.settings)
        var limits: Set<UInt32> = []
        while limits.count < 5 {
            let frame = try client.next(RawClient.Frame.settings)
            if frame.payload.count == 6 { limits.insert(frame.number(at: 2)) }
        }
        #expect(limits.allSatisfy { $0 <= 7 })
    }

    @Test func `a rejected certificate gets a TLS alert, and clients without one are served`() throws {
        let fixture = try Fixture { $0.behaviour.refusals = [.init(.certificate)] }
        #expect(throws: (any Error).self) {
            let client = try RawClient(fixture, certificate: true)
            while true { _ = try client.next() }
        }
        eventually("it is counted") { fixture.simulator.totals.failedHandshakes == 1 }
        let client = try RawClient(fixture)
        try client.push(stream: 1)
        _ = try client.next(RawClient.Frame.headers)
        #expect(fixture.simulator.totals.accepted == 1)
    }

    @Test(arguments: [true, false])
    func `a rejected credential gets its reason until it is accepted again`(isCertificate: Bool) throws {
        let credential: Behaviour.Refusal.Credential = isCertificate ? .certificate : .key("SIMKEY0001")
        let fixture = try Fixture { $0.behaviour.refusals = [.init(credential, .badCertificate)] }
        let client = try RawClient(fixture, certificate: isCertificate)
        try client.push(stream: 1, auth: !isCertificate)
        _ = try client.next(RawClient.Frame.data)
        #expect(fixture.simulator.totals.answers == ["403 BadCertificate": 1])
        fixture.simulator.behave { $0.refusals = [] }
        try client.push(stream: 3, auth: !isCertificate)
        _ = try client.next(RawClient.Frame.headers)
        #expect(fixture.simulator.totals.accepted == 1)
    }

    @Test func `options about connections are parsed`() throws {
        #expect(try Behaviour.ConnectLimit("20/1s:5s") == .init(count: 20, window: .seconds(1), block: .seconds(5)))
        #expect(try Behaviour.LimitWalk("50ms=0..1000") == .init(interval: .milliseconds(50), bounds: 0...1000))
        var behaviour = Behaviour()
        try behaviour.greet("goaway:zero:Shutdown=10%")
        #expect(behaviour.greeting == .goAway(.reason(.shutdown, last: .zero)) && behaviour.greetingShare == 0.1)
        try behaviour.idle("1.5s=500")
        #expect(behaviour.idleLimit == .milliseconds(1500) && behaviour.idleFault == .internalError)
        for text in ["20/1s", "x/1s:5s", "20:5s"] { #expect(throws: ScriptSyntaxError.self) { try Behaviour.ConnectLimit(text) } }
        for text in ["50ms", "50ms=5..1", "0ms=0..1", "50ms=0..9999999999"] {
            #expect(throws: ScriptSyntaxError.self) { try Behaviour.LimitWalk(text) }
        }
        #expect(try Behaviour.Refusal("certificate") == .init(.certificate))
        #expect(try Behaviour.Refusal("SIMKEY0001=Forbidden") == .init(.key("SIMKEY0001"), .forbidden))
        for text in ["", "SIMKEY0001", "certificate=", "certificate=Maybe", "=Forbidden"] {
            #expect(throws: ScriptSyntaxError.self) { try Behaviour.Refusal(text) }
        }
        for text in ["hello", "nothing=x", ""] { #expect(throws: ScriptSyntaxError.self) { try behaviour.greet(text) } }
        for text in ["1s", "1s=404"] { #expect(throws: ScriptSyntaxError.self) { try behaviour.idle(text) } }
    }
}
