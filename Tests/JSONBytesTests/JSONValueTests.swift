import JSONBytes
import Testing

@Suite("A JSON text as a tree")
struct JSONValueTests {
    @Test func `keeps the order, the duplicates and the places of its members`() throws {
        let value = try JSONValue.parse(Array(#" {"b": 1.50, "a": [true, null, "x\n\u00e9"], "b": {}} "#.utf8))
        #expect(
            value
                == .object([
                    JSONMember(key: "b", value: .number("1.50"), offset: 2),
                    JSONMember(key: "a", value: .array([.bool(true), .null, .string("x\né")]), offset: 13),
                    JSONMember(key: "b", value: .object([]), offset: 45),
                ]))
        #expect(value["b"] == .object([]))
        #expect(value["c"] == nil)
    }

    @Test func `a surrogate pair is one character and a lone surrogate the replacement character`() throws {
        #expect(try JSONValue.parse(Array(#""\ud83d\ude00\ud83d\u0041\ude00""#.utf8)) == .string("😀\u{FFFD}A\u{FFFD}"))
    }

    @Test func `tells integers from other numbers`() throws {
        #expect(try JSONValue.parse(Array("-9223372036854775808".utf8)).integerValue == .min)
        #expect(try JSONValue.parse(Array("1.0".utf8)).integerValue == nil)
        #expect(try JSONValue.parse(Array("1.5e3".utf8)).doubleValue == 1500)
    }

    @Test func `nests as deep as it says and refuses more`() throws {
        let most = JSONValue.mostNesting
        let fits = [UInt8](repeating: UInt8(ascii: "["), count: most) + [UInt8](repeating: UInt8(ascii: "]"), count: most)
        #expect(throws: Never.self) { try JSONValue.parse(fits) }
        #expect(throws: JSONError(offset: most, expected: .lessNesting)) {
            try JSONValue.parse([UInt8](repeating: UInt8(ascii: "["), count: 100_000))
        }
    }

    @Test(arguments: [
        (#"{"a":1 "b":2}"#, "expected ',' at byte 7"), (#"{"a":1"#, "expected ',' or '}' at byte 6"),
        ("[1 2]", "expected ',' at byte 3"), ("[1}", "expected ',' or ']' at byte 2"), ("", "expected a value at byte 0"),
        (#"{"a" 1}"#, "expected ':' at byte 5"), ("{a:1}", "expected a key or '}' at byte 1"),
        (#"{"a":1,}"#, "expected a key at byte 7"), ("[1,]", "expected a value at byte 3"),
        ("[,1]", "expected a value or ']' at byte 1"),
        ("1 2", "expected nothing more at byte 2"), ("\"a", "expected '\"' at byte 2"), ("01", "expected nothing more at byte 1"),
        ("\"a\nb\"", "expected an escape instead of a control character at byte 2"),
        (#""\x""#, #"expected one of "\/bfnrtu at byte 2"#),
        (#""\u12g4""#, "expected a hex digit at byte 5"), ("-", "expected a digit at byte 1"),
        ("1.", "expected a digit at byte 2"),
    ])
    func `names the byte and the expected element`(text: String, fault: String) {
        let thrown = #expect(throws: JSONError.self) { try JSONValue.parse(Array(text.utf8)) }
        #expect(thrown?.description == fault)
    }
}
