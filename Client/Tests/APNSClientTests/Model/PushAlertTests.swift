import Foundation
import Testing

@testable import APNSClient

@Suite("An alert with the words of Apple")
struct PushAlertTests {
    private func payload(_ alert: Push.Alert) throws -> String {
        String(decoding: try Push(to: .device("ab"), alert: alert).payload, as: UTF8.self)
    }

    @Test(arguments: [
        (Push.Alert(), #"{"aps":{}}"#), (Push.Alert(body: "Hi"), #"{"aps":{"alert":{"body":"Hi"}}}"#),
        (Push.Alert(title: .localized(key: "T")), #"{"aps":{"alert":{"title-loc-key":"T"}}}"#),
        (
            Push.Alert(subtitle: .localized(key: "S", arguments: ["a", "b"])),
            #"{"aps":{"alert":{"subtitle-loc-args":["a","b"],"subtitle-loc-key":"S"}}}"#
        ),
        (Push.Alert(body: .localized(key: "B", arguments: ["c"])), #"{"aps":{"alert":{"loc-args":["c"],"loc-key":"B"}}}"#),
        (Push.Alert(badge: 3, sound: .standard), #"{"aps":{"badge":3,"sound":"default"}}"#),
        (Push.Alert(sound: .named("bell.caf")), #"{"aps":{"sound":"bell.caf"}}"#),
        (Push.Alert(sound: .critical(volume: 7)), #"{"aps":{"sound":{"critical":1,"name":"default","volume":1}}}"#),
    ])
    func `has its payload`(alert: Push.Alert, json: String) throws {
        #expect(try JSONText(payload(alert)) == JSONText(json))
    }

    @Test func `has every key`() throws {
        var alert = Push.Alert(title: "T", body: "\(1) of 2")
        (alert.category, alert.threadID, alert.interruptionLevel, alert.isMutable) = ("c", "t", .timeSensitive, true)
        let keys = #""category":"c","interruption-level":"time-sensitive","mutable-content":1,"thread-id":"t""#
        #expect(try JSONText(payload(alert)) == JSONText(#"{"aps":{"alert":{"body":"1 of 2","title":"T"},\#(keys)}}"#))
    }

    @Test func `may have keys of the app beside it`() throws {
        let push = try Push(to: .device("ab"), alert: .init(body: "Hi"), custom: ["place": "Berlin"])
        let json = String(decoding: push.payload, as: UTF8.self)
        #expect(try JSONText(json) == JSONText(#"{"aps":{"alert":{"body":"Hi"}},"place":"Berlin"}"#))
        #expect(throws: APNSError.self) { try Push(to: .device("ab"), alert: .init(body: "Hi"), custom: [1, 2]) }
    }
}

/// JSON whose keys have no order.
private struct JSONText: Equatable {
    private let object: NSDictionary

    init(_ json: String) throws {
        object = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? NSDictionary)
    }
}

@Suite("What a caller does after an error")
struct RetrySafetyTests {
    @Test func `only a push that may succeed later, and cannot arrive twice, is safe to send again`() throws {
        let invalid = #expect(throws: APNSError.self) { try Push(to: .device("not hex"), json: Array("{}".utf8)) }
        #expect(invalid?.fate == .notSent && invalid?.isSafeToRetry == false)
        let causes: [APNSError.Cause] = [
            .invalid, .rejected, .held, .unreachable, .connectionLost, .noResponse, .deadlineExceeded, .expired, .cancelled,
            .shutDown,
        ]
        let safe = causes.filter { APNSError($0, .notSent, message: "").isSafeToRetry }
        #expect(safe == causes.filter { ![.invalid, .rejected, .expired].contains($0) })
        for cause in causes {
            #expect(
                !APNSError(cause, .maybeSent, message: "").isSafeToRetry
                    && !APNSError(cause, .rejected, message: "").isSafeToRetry)
        }
    }

    @Test func `a stand-in has results of its own`() async throws {
        struct Sender: PushSender {
            func send(_ push: Push) async throws(APNSError) -> Receipt {
                if push.target == .device("ab") { return Receipt(apnsID: "id", attempts: 2, mayBeDuplicate: true) }
                throw APNSError(
                    .rejected, .rejected, message: "410 Unregistered", response: .init(status: 410, reason: "Unregistered"),
                    token: .dead)
            }
        }
        func send(_ token: String, with sender: some PushSender) async throws -> Receipt {
            try await sender.send(try Push(to: .device(token), alert: .init(body: "Hi")))
        }
        #expect(try await send("ab", with: Sender()).apnsID == "id")
        let error = await #expect(throws: APNSError.self) { try await send("cd", with: Sender()) }
        #expect(error?.response?.status == 410 && error?.token == .dead)
    }
}
