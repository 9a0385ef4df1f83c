import JSONBytes
import Testing

@testable import gaplessd

@Suite("The push type that a payload suggests")
struct PayloadHintTests {
    private static let keys = [
        #""aps""#, #""\u0061ps""#, #""content-available""#, #""content\u002davailable""#, #""content-availablE""#, #""alert""#,
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
        var backgrounds = 0
        for _ in 0..<20_000 {
            let text = generator.object(depth: 0)
            let bytes = Array(text.utf8)
            let tree = try JSONValue.parse(bytes)
            var cursor = JSONCursor()
            let hint = PayloadHint.isBackground(try cursor.value(in: bytes.span), in: bytes)
            #expect(hint == Self.isBackground(tree), "seed \(seed): \(text)")
            if hint { backgrounds += 1 }
        }
        #expect(backgrounds > 100, "too few were background pushes: \(backgrounds)")
    }

    private static func isBackground(_ payload: JSONValue) -> Bool {
        guard let aps = payload["aps"], let available = aps["content-available"] else { return false }
        let shows = ["alert", "badge", "sound"].contains { aps[$0] != nil && aps[$0] != .null }
        return !shows && (available.integerValue == 1 || available.boolValue == true)
    }

    /// Objects out of the keys that matter, with a weight on `aps` outside and `content-available` inside.
    private struct Generator {
        var state: UInt64

        mutating func below(_ bound: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % bound
        }

        mutating func object(depth: Int) -> String {
            let members = (0..<below(5)).map { _ in
                let usual = below(2) == 0 ? below(2) + 2 * min(depth, 1) : below(keys.count)
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
