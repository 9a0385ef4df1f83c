import Foundation
import PushPool
import Testing

@testable import APNSClient

@Suite("A push")
struct PushTests {
    private struct Payload: Encodable {
        struct Content: Encodable {
            var alert = "Frost tonight"
        }
        var aps = Content()
    }

    private static let json = Array(#"{"aps":{"alert":"Hi"}}"#.utf8)
    private let push = try! Push(to: .device("0aF9"), json: PushTests.json)

    private func headers(_ push: Push, topic: String? = "com.example.app") throws -> SharedHeaders {
        var cache = SharedHeadersCache()
        return try PushRequest(push, topic: topic.map(PushTopic.init), cache: &cache, time: 1000).headers
    }

    private func fault(_ change: (inout Push) -> Void) -> APNSError? {
        var push = push
        change(&push)
        do {
            _ = try headers(push)
            return nil
        } catch { return error as? APNSError }
    }

    @Test func `has the payload of an encodable value, or the bytes unchanged`() throws {
        #expect(try Push(to: .device("0a"), payload: Payload()).payload == Array(#"{"aps":{"alert":"Frost tonight"}}"#.utf8))
        let spaced = Array(#" { "a" : 1.50 } "#.utf8)
        #expect(try Push(to: .device("0a"), json: spaced).payload == spaced)
        #expect(try push.addressed(to: .device("0b")).payload == Self.json)
    }

    @Test(arguments: ["", "[]", "1", #"{"a":}"#, #"{"a":1} x"#, "\u{FEFF}{}"])
    func `refuses a payload that is no JSON object`(text: String) {
        #expect(throws: APNSError.self) { try Push(to: .device("0a"), json: Array(text.utf8)) }
    }

    @Test func `refuses a value that is no object`() {
        #expect(throws: APNSError.self) { try Push(to: .device("0a"), payload: [1, 2]) }
        #expect(throws: APNSError.self) { try Push(to: .device("0a"), payload: ["a": Double.nan]) }
    }

    @Test(arguments: ["", "0g", "0a 0b", String(repeating: "0", count: 1001), "０a"])
    func `refuses a token that is not hexadecimal`(token: String) {
        #expect(throws: APNSError.self) { try push.addressed(to: .device(token)) }
    }

    @Test func `takes a token as bytes`() {
        #expect(Push.Target.device(Data([0, 0xAB, 0x1F])) == .device("00ab1f"))
    }

    @Test func `has the headers of its kind`() throws {
        var push = push
        #expect(try headers(push).topic == "com.example.app")
        #expect(try headers(push).priority == 10)
        push.kind = .background
        #expect(try headers(push).priority == 5)
        push.kind = .voip
        #expect(try headers(push).topic == "com.example.app.voip")
        push.topic = "com.other"
        #expect(try headers(push).topic == "com.other.voip")
        push.kind = .init(rawValue: "new")
        #expect(try headers(push).topic == "com.other")
        #expect(try headers(push).pushType == "new")
    }

    @Test func `to a channel has a bundle id and no collapse id`() throws {
        var push = try Push(to: .channel("dHN0LXNyY2g="), json: Self.json)
        #expect(push.kind == .liveActivity)
        let headers = try headers(push, topic: "com.example.app.voip")
        #expect(headers.channel == "dHN0LXNyY2g=")
        #expect(headers.topic == "com.example.app")
        push.collapseID = "a"
        #expect(throws: APNSError.self) { try self.headers(push) }
        #expect(throws: APNSError.self) { try push.addressed(to: .channel("a/../b?")) }
    }

    @Test func `refuses invalid headers`() {
        #expect(fault { $0.collapseID = String(repeating: "é", count: 32) } == nil)
        #expect(fault { $0.collapseID = String(repeating: "é", count: 33) } != nil)
        #expect(fault { $0.collapseID = "a\r\nb: c" } != nil)
        #expect(fault { $0.collapseID = " a" } != nil)
        #expect(fault { $0.topic = "" } != nil)
        #expect(fault { $0.topic = "com.example.voip" } != nil)
        #expect(fault { $0.kind = .init(rawValue: "") } != nil)
        #expect(fault { $0.apnsID = "123e4567-e89b-12d3-a456-42665544000" } != nil)
        #expect(fault { $0.apnsID = "123e4567-e89b-12d3-a456-426655440000" } == nil)
        #expect(fault { $0.deadline = .zero } != nil)
        #expect(fault { $0.expiration = .at(unixSeconds: 0) } != nil)
        #expect(fault { $0.expiration = .after(.milliseconds(999)) } != nil)
        #expect(fault { $0.expiration = .after(.seconds(Int64.max)) } == nil)
        #expect(fault { ($0.kind, $0.priority) = (.background, .immediate) } != nil)
        #expect((try? headers(push, topic: nil)) == nil)
    }

    @Test func `has at most 4096 bytes of payload, and 5120 for voip`() throws {
        let frame = #"{"a":""}"#.utf8.count
        func push(_ count: Int) throws -> Push {
            try Push(to: .device("0a"), json: Array((#"{"a":""# + String(repeating: "x", count: count - frame) + #""}"#).utf8))
        }
        #expect(throws: Never.self) { try headers(push(4096)) }
        #expect(throws: APNSError.self) { try headers(push(4097)) }
        var call = try push(5120)
        call.kind = .voip
        #expect(throws: Never.self) { try headers(call) }
    }
}
