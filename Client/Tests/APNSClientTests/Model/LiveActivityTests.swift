import APNSSimulator
import Testing

@testable import APNSClient

@Suite("The payload of a Live Activity")
struct LiveActivityTests {
    private struct Attributes: Encodable, Sendable { var home = "A" }
    private struct Score: Encodable, Sendable { var home = 1 }

    private func payload(_ activity: LiveActivity<Score>, to target: Push.Target = .device("ab")) throws -> String {
        let push = try Push(to: target, liveActivity: activity)
        #expect(push.kind == .liveActivity)
        return String(decoding: push.payload, as: UTF8.self)
    }

    @Test func `starts with attributes, an alert and the way of later updates`() throws {
        let activity = LiveActivity.start(
            Attributes(), state: Score(), alert: .init(title: "T", body: "B"), updates: .channel("AA=="), timestamp: 7)
        let text = try payload(activity)
        for part in [
            #""event":"start""#, #""timestamp":7"#, #""attributes-type":"Attributes""#, #""attributes":{"home":"A"}"#,
            #""content-state":{"home":1}"#, #""input-push-channel":"AA==""#, #""title":"T""#,
        ] { #expect(text.contains(part), "\(text)") }
        let named = LiveActivity.start(
            Attributes(), type: "Match", state: Score(), alert: .init(title: "T", body: "B", sound: "s"), updates: .token)
        let other = try payload(named)
        #expect(other.contains(#""attributes-type":"Match""#) && other.contains(#""input-push-token":1"#))
        #expect(other.contains(#""sound":"s""#) && named.timestamp > 1_000_000_000)
        let error = #expect(throws: APNSError.self) { try payload(activity, to: .channel("AA==")) }
        #expect(error?.message == "a broadcast cannot start a Live Activity")
    }

    @Test func `updates and ends with dates`() throws {
        var update = LiveActivity.update(Score(), timestamp: 7)
        (update.staleDate, update.relevanceScore) = (9, 0.5)
        let text = try payload(update, to: .channel("AA=="))
        #expect(
            text.contains(#""event":"update""#) && text.contains(#""stale-date":9"#) && text.contains(#""relevance-score":0.5"#))
        #expect(!text.contains("alert") && !text.contains("attributes"))
        let end = try payload(.end(dismissalDate: 8, timestamp: 7))
        #expect(end.contains(#""event":"end""#) && end.contains(#""dismissal-date":8"#) && !end.contains("content-state"))
    }

    @Test func `reaches APNs with the topic of Live Activities`() async throws {
        let fixture = try ClientFixture { $0.channels = [.init(app: "com.example.app", id: "AAAA")] }
        let client = try fixture.client()
        _ = try await client.send(Push(to: .device("ab"), liveActivity: LiveActivity.update(Score())))
        #expect(fixture.simulator.ledger.requests(for: "ab").first?.topic == "com.example.app.push-type.liveactivity")
        var broadcast = try Push(to: .channel("AAAA"), liveActivity: LiveActivity.end(Score()))
        broadcast.expiration = .once
        _ = try await client.send(broadcast)
        #expect(fixture.simulator.ledger.requests(for: "AAAA").first?.isBroadcast == true)
        await client.shutdown()
    }
}
