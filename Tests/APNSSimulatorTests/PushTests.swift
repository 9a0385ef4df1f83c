import Glibc
import Harness
import Testing

@testable import APNSSimulator

@Suite("Pushes by nghttp")
struct PushTests {
    /// The thread of the simulator receives the change within a turn.
    @Test func `a change of behaviour applies to every later request`() throws {
        let fixture = try Fixture()
        let client = try RawClient(fixture)
        for round in 0..<1000 {
            let stream = UInt32(2 * round + 1)
            try client.sendHeaders(stream: stream, client.headers())
            fixture.simulator.behave { $0.script.failures = round % 2 == 0 ? [] : [.init(.usual(503), 1)] }
            let totals = fixture.simulator.totals
            try client.sendBody(stream: stream)
            _ = try client.next(RawClient.Frame.headers)
            let isAccepted = fixture.simulator.totals.accepted > totals.accepted
            guard isAccepted == (round % 2 == 0) else {
                Issue.record("round \(round) was \(isAccepted ? "accepted" : "refused")")
                return
            }
        }
    }

    @Test func `a token connection allows one stream, and 1000 after the first push`() throws {
        let seen = try Fixture().nghttp()
        let order = [
            "[SETTINGS_HEADER_TABLE_SIZE(0x01):4096]", "[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1]",
            "[SETTINGS_MAX_FRAME_SIZE(0x05):16384]", "[SETTINGS_MAX_HEADER_LIST_SIZE(0x06):8000]",
            "[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000]", ":status: 200",
        ]
        var rest = seen[...]
        for text in order {
            guard let found = rest.firstRange(of: text) else {
                Issue.record("\(text) is missing, or out of order, in \(seen)")
                return
            }
            rest = rest[found.upperBound...]
        }
    }

    @Test func `an accepted push gets 200 without a body, and an apns-id in upper case`() throws {
        let fixture = try Fixture()
        let seen = try fixture.nghttp()
        #expect(seen.contains("; END_STREAM | END_HEADERS"))
        #expect(!seen.contains("recv DATA"))
        let entry = try #require(fixture.simulator.ledger.entries.first)
        #expect(seen.contains("apns-id: \(entry.apnsID)"))
        #expect(entry.apnsID == entry.apnsID.uppercased() && UUIDText.isValid(Array(entry.apnsID.utf8).span))
        #expect(entry.verdict == .accepted(isAnswered: true))
    }

    @Test func `the apns-id of the client is returned, and the ledger records the request`() throws {
        let fixture = try Fixture { $0.ledgerDetail = .requests(keepsBodies: true) }
        let id = "8a2f9d3e-1c4b-4c3a-9b57-2f1f0a7c9d11"
        let seen = try fixture.nghttp(
            headers: [
                "apns-topic: \(Fixture.topic)", "apns-id: \(id)", "apns-push-type: alert", "apns-priority: 5",
                "apns-expiration: 1900000000", "apns-collapse-id: news",
            ], body: "{}")
        #expect(seen.contains("apns-id: \(id)"))
        let entry = try #require(fixture.simulator.ledger.requests(for: Fixture.deviceToken.uppercased()).first)
        #expect(entry.apnsID == id)
        #expect([entry.topic, entry.pushType, entry.priority] == [Fixture.topic, "alert", "5"])
        #expect([entry.expiration, entry.collapseID] == ["1900000000", "news"])
        #expect(entry.body == Array("{}".utf8))
        #expect(entry.bodySHA256 == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a")
        #expect(fixture.simulator.ledger.acceptedCount(token: Fixture.deviceToken) == 1)
    }

    @Test func `a rejection has JSON with the reason`() throws {
        let fixture = try Fixture()
        let seen = try fixture.nghttp(headers: [])
        #expect(seen.contains(":status: 400") && seen.contains("content-type: application/json"))
        #expect(seen.contains(#"{"reason":"MissingTopic"}"#))
        #expect(fixture.simulator.totals.answers == ["400 MissingTopic": 1])
    }

    @Test func `a request without a credential is rejected`() throws {
        #expect(try Fixture().nghttp(auth: false).contains(#"{"reason":"MissingProviderToken"}"#))
    }

    @Test func `a certificate allows all streams immediately, and has a default topic`() throws {
        let fixture = try Fixture()
        let seen = try fixture.nghttp(auth: false, certificate: true)
        #expect(seen.contains("[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000]"))
        #expect(!seen.contains("[SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1]"))
        #expect(seen.contains(":status: 200"))
        #expect(
            try fixture.nghttp(headers: ["apns-topic: com.other"], auth: false, certificate: true).contains("TopicDisallowed"))
    }

    @Test func `a simulator for tokens requests no certificate`() throws {
        let fixture = try Fixture { $0.authentication = .token }
        #expect(try fixture.nghttp(auth: false, certificate: true).contains("MissingProviderToken"))
    }

    @Test func `the sandbox adds apns-unique-id`() throws {
        #expect(try Fixture { $0.environment = .sandbox }.nghttp().contains("apns-unique-id: "))
        #expect(try !Fixture().nghttp().contains("apns-unique-id"))
    }

    @Test func `a 410 has a timestamp in milliseconds`() throws {
        let fixture = try Fixture()
        let answers: [Answer] = [.status(410, "ExpiredToken", timestamp: 1_700_000_000_123), .usual(410)]
        fixture.simulator.plan(token: Fixture.deviceToken, answers: answers)
        #expect(try fixture.nghttp().contains(#"{"reason":"ExpiredToken","timestamp":1700000000123}"#))
        let second = try fixture.nghttp()
        let match = try #require(second.firstMatch(of: /\{"reason":"Unregistered","timestamp":(\d{13})\}/))
        #expect(abs(Double(match.1)! / 1000 - Double(time(nil))) < 60)
        #expect(try fixture.nghttp().contains(":status: 200"))
    }

    @Test func `an expired token and every later request of its connection are rejected`() throws {
        let fixture = try Fixture()
        let client = try RawClient(fixture)
        try client.push(stream: 1)
        eventually("the first push is accepted") { fixture.simulator.totals.accepted == 1 }
        fixture.simulator.advanceClock(seconds: 3700)
        try client.push(stream: 3)
        try client.push(stream: 5)
        eventually("both are refused") { fixture.simulator.totals.answers == ["403 ExpiredProviderToken": 2] }
    }

    @Test func `every one of many requests is answered`() throws {
        let fixture = try Fixture { $0.behaviour.tokenStreamLimit = 1000 }
        let url = fixture.url()
        let seen = try Program.run(
            "h2load", "-n", "2000", "-c", "4", "-m", "100", "-d", try fixture.file("b", "{}"),
            "-H", "apns-topic: \(Fixture.topic)", "-H", "authorization: bearer \(Fixture.providerToken())", url
        ).output
        #expect(seen.contains("2000 2xx"), "\(seen)")
        #expect(fixture.simulator.ledger.acceptedCount(token: Fixture.deviceToken) == 2000)
        #expect(Set(fixture.simulator.ledger.entries.map(\.apnsID)).count == 2000)
    }

    @Test func `hundreds of connections are served concurrently`() throws {
        let fixture = try Fixture { $0.ledgerDetail = .counts }
        let seen = try Program.run(
            "h2load", "-n", "900", "-c", "300", "-m", "1", "-d", try fixture.file("b", "{}"),
            "-H", "apns-topic: \(Fixture.topic)", "-H", "authorization: bearer \(Fixture.providerToken())", fixture.url()
        ).output
        #expect(seen.contains("900 2xx"), "\(seen)")
        #expect(fixture.simulator.totals.connections == 300)
        #expect(fixture.simulator.ledger.entries.isEmpty)
        eventually("every connection is forgotten") { fixture.simulator.totals.openConnections == 0 }
    }

    @Test func `bodies of rejections that fill the client's window are delivered`() throws {
        let fixture = try Fixture {
            $0.behaviour.tokenStreamLimit = 1000
            $0.behaviour.script.failures = [.init(.usual(400), 1)]
        }
        let seen = try Program.run(
            "h2load", "-n", "5000", "-c", "1", "-m", "200", "-d", try fixture.file("b", "{}"),
            "-H", "apns-topic: \(Fixture.topic)", "-H", "authorization: bearer \(Fixture.providerToken())", fixture.url()
        ).output
        #expect(seen.contains("5000 4xx"), "\(seen)")
    }
}
