import Testing

@testable import APNSSimulator

/// Tests with the clients of nghttp2, which were written independently of the simulator.
@Suite("nghttp2's own clients")
struct ClientToolTests {
    private func h2load(_ fixture: Fixture, _ options: [String], certificate: Bool = true) throws -> String {
        let body = try fixture.file("body", #"{"aps":{"alert":"Hello"}}"#)
        var command = ["h2load", "-d", body, "-H", "apns-topic: \(Fixture.topic)"] + options
        if !certificate { command += ["-H", "authorization: bearer \(try Fixture.providerToken())"] }
        return try Program.run(command + [fixture.url()]).output
    }

    @Test func `nghttp receives the SETTINGS of APNs, and PRIORITY frames are counted`() throws {
        let fixture = try Fixture()
        let seen = try fixture.nghttp(certificate: true, options: [])
        for line in [
            "SETTINGS_HEADER_TABLE_SIZE(0x01):4096", "SETTINGS_MAX_CONCURRENT_STREAMS(0x03):1000",
            "SETTINGS_MAX_FRAME_SIZE(0x05):16384", "SETTINGS_MAX_HEADER_LIST_SIZE(0x06):8000",
        ] {
            #expect(seen.contains(line), "\(seen)")
        }
        #expect(seen.contains("The negotiated protocol: h2"))
        #expect(fixture.simulator.totals.priorityFrames == 0)
        let weight = try Program.run(
            "nghttp", "-v", "-p", "5", "-d", try fixture.file("b", "{}"), "-H", ":method: POST",
            "-H", "apns-topic: \(Fixture.topic)", "-H", "authorization: bearer \(try Fixture.providerToken())", fixture.url())
        #expect(weight.output.contains("apns-id"))
        #expect(fixture.simulator.totals.priorityFrames > 0)
    }

    @Test func `every request of h2load is answered, and its header bytes are counted`() throws {
        let fixture = try Fixture { $0.behaviour.tokenStreamLimit = 1000 }
        let seen = try h2load(fixture, ["-n", "2000", "-c", "4", "-m", "50"], certificate: false)
        #expect(seen.contains("2000 succeeded, 0 failed, 0 errored, 0 timeout"), "\(seen)")
        #expect(seen.contains("status codes: 2000 2xx, 0 3xx, 0 4xx, 0 5xx"), "\(seen)")
        let totals = fixture.simulator.totals
        #expect(totals.accepted == 2000 && totals.connections == 4 && totals.limitViolations == 0)
        // nghttp2 never indexes `authorization`: each request has its 180 bytes.
        #expect(totals.headerBytes > 2000 * 150 && totals.headerBytes < 2000 * 300, "\(totals.headerBytes)")
        #expect(totals.providerTokens == ["SIMKEY0001": 1])
    }

    @Test func `h2load observes the announced limit`() throws {
        let fixture = try Fixture {
            $0.behaviour.tokenStreamLimit = 3
            $0.behaviour.streamLimit = 3
        }
        let seen = try h2load(fixture, ["-n", "300", "-c", "1", "-m", "3"], certificate: false)
        #expect(seen.contains("300 succeeded"), "\(seen)")
        #expect(fixture.simulator.totals.limitViolations == 0 && fixture.simulator.totals.refusedStreams == 0)
    }

    /// Not both at once: nghttp2 1.52 counts each read that ends inside a CONTINUATION frame as another frame, and accepts eight.
    @Test(arguments: [true, false])
    func `h2load accepts split frames and small TLS records`(splitsFrames: Bool) throws {
        let fixture = try Fixture {
            $0.behaviour.tokenStreamLimit = 100
            $0.behaviour.splitsFrames = splitsFrames
            $0.behaviour.recordBytes = splitsFrames ? 16384 : 3
            $0.behaviour.script.failures = [.init(.usual(410), 0.5)]
        }
        let seen = try h2load(fixture, ["-n", "200", "-c", "2", "-m", "10"], certificate: false)
        #expect(seen.contains("200 done, "), "\(seen)")
        #expect(seen.contains("0 errored, 0 timeout"), "\(seen)")
        #expect(fixture.simulator.totals.requests == 200)
        let gone = fixture.simulator.totals.answers["410 Unregistered", default: 0]
        #expect(seen.contains("\(200 - gone) 2xx, 0 3xx, \(gone) 4xx"), "\(seen)")
    }

    @Test func `nghttp receives GOAWAY with its reason`() throws {
        let fixture = try Fixture()
        fixture.simulator.plan(token: Fixture.deviceToken, answers: [.goAway(.reason(.shutdown, last: .belowThis))])
        let seen = try fixture.nghttp()
        #expect(seen.contains("recv GOAWAY frame"), "\(seen)")
        #expect(seen.contains(#"opaque_data(21)=[{"reason":"Shutdown"}]"#), "\(seen)")
    }
}
