import Testing

@testable import gaplessd

@Suite("Values that must not reach a device")
struct PayloadMatchTests {
    private func matches(_ payload: String, _ path: String, _ values: [PayloadMatch.Value]) -> Bool {
        // A payload is a part of its job.
        let bytes = Array((#"{"data": "# + payload + "}").utf8)
        return PayloadMatch(path: path, values: values).matches(9..<bytes.count - 1, of: bytes)
    }

    @Test func `a value is found at its path only`() {
        let payload = #"{"aps": {"category": "ad", "alert": {"title": "x"}}, "category": "news"}"#
        #expect(matches(payload, "aps.category", [.string(Array("ad".utf8))]))
        #expect(!matches(payload, "aps.category", [.string(Array("news".utf8))]))
        #expect(matches(payload, "category", [.string(Array("ad".utf8)), .string(Array("news".utf8))]))
        #expect(matches(payload, "aps.alert.title", [.string(Array("x".utf8))]))
        for path in ["aps", "aps.alert", "aps.none", "aps.category.more", "none.at.all"] {
            #expect(!matches(payload, path, [.string(Array("ad".utf8)), .null]), "\(path)")
        }
    }

    @Test func `escapes in keys and values are decoded`() {
        #expect(matches(#"{"\u0061ps": {"category": "\u0061d"}}"#, "aps.category", [.string(Array("ad".utf8))]))
        #expect(matches(#"{"ä": "ö"}"#, "ä", [.string(Array("ö".utf8))]))
    }

    @Test func `numbers are compared as numbers, and only with numbers`() {
        #expect(matches(#"{"n": 1.0}"#, "n", [.integer(1)]))
        #expect(matches(#"{"n": 1e2}"#, "n", [.integer(100)]))
        #expect(matches(#"{"n": 0.5}"#, "n", [.number(0.5)]))
        #expect(!matches(#"{"n": "1"}"#, "n", [.integer(1)]))
        #expect(!matches(#"{"n": 9007199254740993}"#, "n", [.integer(9_007_199_254_740_992)]))
        #expect(!matches(#"{"n": 1e999}"#, "n", [.integer(1)]))
    }

    @Test func `true, false and null are values`() {
        #expect(matches(#"{"a": true}"#, "a", [.bool(true)]))
        #expect(!matches(#"{"a": true}"#, "a", [.bool(false)]))
        #expect(matches(#"{"a": null}"#, "a", [.null]))
        #expect(!matches("{}", "a", [.null]), "an absent member has no value")
    }

    @Test func `the last one of duplicate keys applies, and arrays are not searched`() {
        #expect(!matches(#"{"a": 1, "a": 2}"#, "a", [.integer(1)]))
        #expect(matches(#"{"a": 1, "a": 2}"#, "a", [.integer(2)]))
        #expect(!matches(#"{"a": [1]}"#, "a", [.integer(1)]))
    }
}
