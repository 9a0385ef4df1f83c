import Harness
import Platform
import Testing

@testable import APNSSimulator

@Suite("Broadcasts and channels")
struct ChannelTests {
    private static let app = "com.example.app"
    private static let channel = "dHN0LXNyY2gtY2hubA=="

    private func fixture(_ change: (inout Simulator.Configuration) -> Void = { _ in }) throws -> Fixture {
        try Fixture {
            $0.channels = [.init(app: Self.app, id: Self.channel), .init(app: Self.app, id: "bm9uZQ==", stores: false)]
            change(&$0)
        }
    }

    private func broadcast(
        _ fixture: Fixture, app: String = Self.app, headers: [String: String?] = [:], body: String = #"{"aps":{}}"#
    ) throws -> String {
        var all: [String: String] = [
            "apns-channel-id": Self.channel, "apns-push-type": "liveactivity", "apns-expiration": "0", "apns-priority": "10",
        ]
        for (name, value) in headers { all[name] = value }
        return try fixture.nghttp(
            headers: all.map { "\($0.key): \($0.value)" }.sorted(), body: body,
            urls: ["https://localhost:\(fixture.simulator.port)/4/broadcasts/apps/\(app)"])
    }

    private func manage(
        _ fixture: Fixture, _ method: String, _ path: String = "/1/apps/com.example.app/channels", channel: String? = nil,
        body: String? = nil, port: Int? = nil
    ) throws -> String {
        var command = ["nghttp", "-v", "--no-dep", "-t", "10", "-H", ":method: \(method)"]
        command += ["-H", "authorization: bearer \(try Fixture.providerToken())"]
        if let channel { command += ["-H", "apns-channel-id: \(channel)"] }
        if let body { command += ["-d", try fixture.file("channel.json", body)] }
        return try Program.run(command + ["https://localhost:\(port ?? fixture.simulator.port)\(path)"]).output
            .replacing(/\u{1B}\[[0-9;]*m/, with: "")
    }

    @Test func `a broadcast is accepted and answered with apns-request-id`() throws {
        let fixture = try fixture()
        let id = "11111111-2222-3333-4444-555555555555"
        let seen = try broadcast(fixture, headers: ["apns-request-id": id])
        #expect(seen.contains(":status: 200") && seen.contains("apns-request-id: \(id)"), "\(seen)")
        #expect(!seen.contains("apns-id: "))
        let entry = try #require(fixture.simulator.ledger.requests(for: Self.channel).first)
        #expect(entry.isBroadcast && entry.topic == Self.app && entry.apnsID == id)
        #expect(fixture.simulator.totals.accepted == 1)
        #expect(try broadcast(fixture, headers: ["apns-id": id]).contains("apns-request-id: \(id)"))
        #expect(try broadcast(fixture, headers: ["apns-push-type": "Liveactivity"]).contains(":status: 200"))
    }

    @Test(
        arguments: [
            (["apns-channel-id": nil], Reason.missingChannelId), (["apns-push-type": nil], .missingPushType),
            (["apns-push-type": "alert"], .invalidPushType), (["apns-expiration": nil], .badExpirationDate),
            (["apns-expiration": "soon"], .badExpirationDate), (["apns-priority": "7"], .badPriority),
            (["apns-channel-id": "no base64!"], .badChannelId), (["apns-channel-id": "AAAA"], .channelNotRegistered),
            (["apns-request-id": "7"], .badMessageId),
            (["apns-channel-id": "bm9uZQ==", "apns-expiration": "9999999999"], .badExpirationDate),
        ] as [([String: String?], Reason)])
    func `an invalid broadcast gets its reason`(headers: [String: String?], reason: Reason) throws {
        let seen = try broadcast(fixture(), headers: headers)
        #expect(seen.contains(":status: \(reason.status)") && seen.contains("\"\(reason.rawValue)\""), "\(seen)")
    }

    @Test func `the bundle id in the path and the payload size are validated`() throws {
        let fixture = try fixture { $0.broadcastTopics = [Self.app] }
        #expect(try broadcast(fixture, app: "com.example.app.push-type.liveactivity").contains("TopicDisallowed"))
        #expect(try broadcast(fixture, app: "com.example.other").contains("FeatureNotEnabled"))
        let full = #"{"a":"\#(String(repeating: "x", count: 5120 - 8))"}"#
        #expect(try broadcast(fixture, body: full).contains(":status: 200"))
        #expect(try broadcast(fixture, body: full + " ").contains("PayloadTooLarge"))
        let stranger = try fixture.nghttp(
            headers: ["apns-channel-id: \(Self.channel)", "apns-push-type: liveactivity", "apns-expiration: 0"],
            urls: ["https://localhost:\(fixture.simulator.port)/4/broadcasts/apps/com.example.other"], auth: false,
            certificate: true)
        #expect(stranger.contains("TopicMismatch"), "\(stranger)")
    }

    @Test func `channels are created, read, listed and deleted`() throws {
        let fixture = try fixture()
        let made = try manage(fixture, "POST", body: #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
        #expect(made.contains(":status: 201"), "\(made)")
        let line = try #require(made.split(separator: "\n").first { $0.contains("recv") && $0.contains("apns-channel-id: ") })
        let id = String(line.split(separator: " ").last ?? "")
        #expect(Channels.isChannelID(id))
        let read = try manage(fixture, "GET", channel: id)
        #expect(
            read.contains(":status: 200") && read.contains(#"{"message-storage-policy":1,"push-type":"LiveActivity"}"#), "\(read)"
        )
        #expect(try manage(fixture, "GET", "/1/apps/com.example.app/all-channels").contains(id))
        #expect(try broadcast(fixture, headers: ["apns-channel-id": id]).contains(":status: 200"))
        #expect(try manage(fixture, "DELETE", channel: id).contains(":status: 204"))
        #expect(try manage(fixture, "GET", channel: id).contains("ChannelNotRegistered"))
        #expect(try broadcast(fixture, headers: ["apns-channel-id": id]).contains("ChannelNotRegistered"))
        #expect(fixture.simulator.totals.channelRequests == 5)
        #expect(fixture.simulator.totals.requests == 2)
    }

    @Test func `an invalid channel management request gets its reason`() throws {
        let fixture = try fixture()
        #expect(try manage(fixture, "GET").contains("MissingChannelId"))
        #expect(try manage(fixture, "GET", channel: "!").contains("BadChannelId"))
        #expect(try manage(fixture, "PUT").contains("MethodNotAllowed"))
        #expect(try manage(fixture, "POST", "/1/apps/x/nothing").contains("BadPath"))
        #expect(try manage(fixture, "POST", body: "[]").contains("BadRequestPayload"))
        #expect(try manage(fixture, "POST", body: #"{"message-storage-policy":0}"#).contains("MissingPushType"))
        #expect(
            try manage(fixture, "POST", body: #"{"message-storage-policy":0,"push-type":"alert"}"#).contains("InvalidPushType"))
        #expect(
            try manage(fixture, "POST", body: #"{"message-storage-policy":2,"push-type":"LiveActivity"}"#).contains(
                "BadRequestPayload"))
        var channels = Channels(enabled: [])
        for number in 0..<Channels.limit { channels.add("\(number)", app: "a", storagePolicy: 0) }
        var request = Request()
        for (name, value) in [(":method", "POST"), (":path", "/1/apps/a/channels")] {
            request.add(name: Array(name.utf8).span, value: Array(value.utf8).span)
        }
        request.add(body: Array(#"{"message-storage-policy":0,"push-type":"LiveActivity"}"#.utf8).span)
        request.findChannelPath()
        var random = SeededRandom(seed: 1)
        let error = #expect(throws: Channels.RequestError.self) { try channels.manage(request, &random) }
        #expect(error?.reason == .cannotCreateChannelConfig)
    }

    @Test func `a port of its own serves the requests for channels and no push`() throws {
        let fixture = try fixture { $0.managementPort = 0 }
        let port = try #require(fixture.simulator.managementPort)
        #expect(port != fixture.simulator.port)
        let list = "/1/apps/com.example.app/all-channels"
        #expect(try manage(fixture, "GET", list, port: port).contains(Self.channel))
        #expect(try manage(fixture, "GET", list).contains(Self.channel), "as the other port")
        #expect(try manage(fixture, "POST", "/3/device/ab", body: "{}", port: port).contains("BadPath"))
        #expect(fixture.simulator.totals.requests == 0)
    }

    @Test func `the answers to requests for channels follow a script, and may be lost after the work`() throws {
        let fixture = try fixture {
            $0.channels = []
            $0.behaviour.channelLimit = 2
            $0.behaviour.managementTurns = [.init(1, .closeConnection(recorded: true)), .init(2, .reason(.featureNotEnabled))]
        }
        let body = #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#
        #expect(try !manage(fixture, "POST", body: body).contains(":status: 201"))
        #expect(try manage(fixture, "POST", body: body).contains("FeatureNotEnabled"))
        #expect(try manage(fixture, "POST", body: body).contains(":status: 201"))
        #expect(try manage(fixture, "POST", body: body).contains("CannotCreateChannelConfig"), "the lost one counts")
    }

    @Test func `each channel has a random limit in each window`() throws {
        var player = ChannelRatePlayer()
        player.rate = try Behaviour.ChannelRate("2..12/60s")
        var random = SeededRandom(seed: 7)
        let start = Instant.now
        var limits: Set<Int> = []
        for channel in 0..<20 {
            for window in 0..<20 {
                let now = start + .seconds(60 * window)
                limits.insert((0..<30).count { _ in player.admits([UInt8(channel)], &random, now: now) })
            }
        }
        #expect(limits == Set(2...12))
        player.rate = try Behaviour.ChannelRate("4/1s")
        #expect((0..<9).count { _ in player.admits([1], &random, now: start) } == 4)
        for text in ["", "4", "5..2/1s", "x/1s", "-1/1s", "1..2..3/1s"] {
            #expect(throws: ScriptSyntaxError.self) { try Behaviour.ChannelRate(text) }
        }
        let fixture = try fixture { $0.behaviour.channelRate = .init(1...1, per: .seconds(600)) }
        #expect(try broadcast(fixture).contains(":status: 200"))
        #expect(try broadcast(fixture).contains("TooManyRequests"))
        #expect(try broadcast(fixture, headers: ["apns-channel-id": "bm9uZQ=="]).contains(":status: 200"))
    }
}
