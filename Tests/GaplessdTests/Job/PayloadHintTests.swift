import JSONBytes
import Testing

@testable import gaplessd

@Suite("The push type that a payload suggests")
struct PayloadHintTests {
    private static let keys = [
        #""aps""#, #""event""#, #""content-state""#, #""content-changed""#, #""attributes""#, #""attributes-type""#, #""mdm""#,
        #""\u006ddm""#, #""attribute""#, #""\u0061ps""#, #""content-available""#, #""content\u002davailable""#,
        #""content-availablE""#, #""alert""#,
        #""badge""#,
        #""sound""#, #""mutable-content""#, #""thread-id""#, #""-available""#, #""k""#,
    ]
    private static let scalars = [
        "1", "0", "true", "false", "null", "1.0", "-1", #""""#, #""1""#, #""content-available""#, #""a\\b""#,
    ]

    @Test func `equals a search of the whole tree, on random payloads`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("PayloadHintTests seed \(seed)")
        var generator = Generator(state: seed)
        var found: [String: Int] = [:]
        for _ in 0..<20_000 {
            let text = generator.object(depth: 0)
            let bytes = Array(text.utf8)
            let tree = try JSONValue.parse(bytes)
            var cursor = JSONCursor()
            let data = try cursor.value(in: bytes.span)
            let hint = PayloadHint(walking: data, in: bytes.span)
            let (pushType, isUndecided) = Self.pushType(tree)
            #expect(hint.pushType == pushType && (hint.undecided != nil) == isUndecided, "seed \(seed): \(text)")
            #expect(PayloadHint.mayDecide(data) || pushType == nil && !isUndecided, "seed \(seed): \(text)")
            #expect((hint.reason == nil) == (pushType == nil), "seed \(seed): \(text)")
            found[isUndecided ? "undecided" : pushType ?? "none", default: 0] += 1
        }
        for kind in ["liveactivity", "mdm", "undecided", "background", "none"] {
            #expect(found[kind, default: 0] > 20, "too few were \(kind): \(found)")
        }
    }

    @Test(arguments: [
        #"{"aps":{"alert":{"title":"A","body":"b","loc-key":"k"},"sound":"default","badge":1},"id":1,"url":"u"}"#,
        #"{"aps":{"alert":"content-available","mutable-content":1,"thread-id":"t","interruption-level":"active"}}"#,
    ])
    func `a usual alert is not parsed a second time`(payload: String) throws {
        let bytes = Array(payload.utf8)
        var cursor = JSONCursor()
        let data = try cursor.value(in: bytes.span)
        #expect(!PayloadHint.mayDecide(data))
    }

    private static func pushType(_ payload: JSONValue) -> (pushType: String?, isUndecided: Bool) {
        func isGiven(_ value: JSONValue?) -> Bool { value != nil && value != .null }
        let aps = payload["aps"]
        if isGiven(aps?["event"]), isGiven(aps?["content-state"]) || isGiven(aps?["attributes"]) {
            return ("liveactivity", false)
        }
        if isGiven(payload["mdm"]) { return ("mdm", false) }
        let available = aps?["content-available"]
        let shows = ["alert", "badge", "sound"].contains { isGiven(aps?[$0]) }
        let isBackground = !shows && (available?.integerValue == 1 || available?.boolValue == true)
        return (isBackground ? "background" : nil, isGiven(aps?["content-changed"]))
    }

    /// Objects out of the keys that matter, with a weight on `aps` outside and on some of the others inside.
    private struct Generator {
        var state: UInt64

        mutating func below(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }

        mutating func object(depth: Int) -> String {
            let members = (0..<below(5)).map { _ in
                let usual = below(2) == 0 ? (depth == 0 ? 0 : 1 + below(4)) : below(keys.count)
                return "\(keys[usual]):\(value(depth: depth))"
            }
            return "{\(members.joined(separator: below(2) == 0 ? "," : " , "))}"
        }

        private mutating func value(depth: Int) -> String {
            switch below(8) {
            case 0...3 where depth < 2: object(depth: depth + 1)
            case 4 where depth < 2: "[\(object(depth: depth + 1))]"
            default: scalars[below(3) == 0 ? below(scalars.count) : 0]
            }
        }
    }
}
