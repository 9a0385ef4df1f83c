import PushPool
import Testing

@testable import PushPool

@Suite("A call of the channel management API")
struct ChannelCallTests {
    private static let app = "com.example.app"

    private func call(_ action: ChannelCall.Action, topic: String = app) throws -> ChannelCall {
        try #require(ChannelCall(action, topic: topic))
    }

    /// Returns the header block of a request, as the encoder writes it.
    private func fields(_ call: ChannelCall) -> [UInt8] {
        var encoder = HPACKEncoder(authority: "localhost:2195")
        encoder.setToken(Array("token".utf8))
        var out = OutBuffer()
        encoder.encode(call.request(id: 7), into: &out)
        return out.bytes(since: 0)
    }

    private func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test func `has the method, the path and the headers of Apple`() throws {
        let create = fields(try call(.create(.latest)))
        #expect(create[0] == 0x83 && text(create).contains("/1/apps/com.example.app/channels"))
        #expect(!text(create).contains("apns-push-type") && !text(create).contains("apns-priority"))
        let read = fields(try call(.read("AA=="), topic: Self.app + ".push-type.liveactivity"))
        #expect(read[0] == 0x82 && text(read).contains("/1/apps/com.example.app/channels") && text(read).contains("AA=="))
        let delete = fields(try call(.delete("AA==")))
        #expect(Array(delete[..<8]) == [0x02, 6] + Array("DELETE".utf8) && text(delete).contains("apns-channel-id"))
        let list = fields(try call(.list))
        #expect(list[0] == 0x82 && text(list).contains("/1/apps/com.example.app/all-channels"))
        for block in [create, read, delete, list] { #expect(text(block).contains("bearer token")) }
    }

    @Test func `has a body only if it creates`() throws {
        let request = try call(.create(.none)).request(id: 1)
        #expect(text(request.bytes) == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
        #expect(request.payload == 0..<request.bytes.count)
        #expect(try call(.list).request(id: 1).payload.isEmpty && call(.delete("AA==")).request(id: 1).payload.isEmpty)
        #expect(ChannelCall(.list, topic: "a/b") == nil)
    }

    @Test func `reads the responses`() throws {
        func reply(_ action: ChannelCall.Action, _ acceptance: Acceptance?) throws -> ChannelCall.Reply {
            try call(action).reply(.delivered(acceptance))
        }
        func body(_ text: String) -> Acceptance { Acceptance(apnsID: nil, body: Array(text.utf8)) }
        #expect(try reply(.create(.none), Acceptance(apnsID: nil, channelID: "AA==")) == .created("AA=="))
        #expect(try reply(.read("AA=="), body(#"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)) == .found(.latest))
        #expect(try reply(.delete("AA=="), nil) == .deleted)
        #expect(try reply(.list, body(#"{"channels":["AA==",7,"BB=="]}"#)) == .list(["AA==", "BB=="]))
        for (action, answer) in [
            (.create(.none), nil), (.create(.none), Acceptance(apnsID: nil, channelID: "no id")), (.read("AA=="), body("{}")),
            (.list, body("[]")), (.list, nil),
        ] as [(ChannelCall.Action, Acceptance?)] {
            let failure = #expect(throws: ChannelCall.Failure.self) { try reply(action, answer) }
            if case .malformed = failure { continue }
            Issue.record("\(action): \(String(describing: failure))")
        }
    }

    @Test func `tells a full account and a missing channel from other failures`() throws {
        func failure(_ reason: String) throws -> ChannelCall.Failure? {
            let call = try call(.list)
            return #expect(throws: ChannelCall.Failure.self) {
                try call.reply(.rejected(Rejection(status: 400, reason: reason)))
            }
        }
        #expect(try failure("CannotCreateChannelConfig")?.isFull == true && failure("BadPath")?.isFull == false)
        #expect(try failure("ChannelNotRegistered")?.isMissing == true && failure("BadPath")?.isMissing == false)
        let lost = try call(.create(.none))
        #expect(throws: ChannelCall.Failure.maybeProcessed("the request timed out")) { try lost.reply(.timedOut) }
    }
}
