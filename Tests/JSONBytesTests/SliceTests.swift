import Harness
import JSONBytes
import Testing

@Suite("A slice of a JSON text")
struct SliceTests {
    private func integer(_ text: String) throws -> JSONInteger? {
        try asking(text) { $0.integer(in: $1) }
    }

    @Test func `the members of an object come with their own bytes`() throws {
        let text = Array(#" { "a" : {"x": [1, 2]} ,"b":"\u0041","c":-1.50 } "#.utf8)
        var cursor = JSONCursor()
        var members: [String] = []
        try cursor.enterObject(in: text.span)
        while let (key, value) = try cursor.nextMember(in: text.span) {
            members += [key, value].map { String(decoding: text[$0.range], as: UTF8.self) }
        }
        try cursor.finish(in: text.span)
        #expect(members == [#""a""#, #"{"x": [1, 2]}"#, #""b""#, #""\u0041""#, #""c""#, "-1.50"])
    }

    @Test func `stepping into a value leads back to its neighbours`() throws {
        let text = Array(#"{"a":[1,{"b":[]},[2]],"c":{}}"#.utf8)
        var cursor = JSONCursor()
        var seen: [String] = []
        try cursor.enterObject(in: text.span)
        while let key = try cursor.nextKey(in: text.span) {
            seen.append(key.text(in: text.span))
            guard cursor.peek(in: text.span) == .array else {
                try cursor.enterObject(in: text.span)
                let inner = try cursor.nextKey(in: text.span)
                #expect(inner == nil)
                continue
            }
            try cursor.enterArray(in: text.span)
            while try cursor.advanceToElement(in: text.span) {
                let element = try cursor.value(in: text.span)
                seen.append(String(decoding: text[element.range], as: UTF8.self))
            }
        }
        try cursor.finish(in: text.span)
        #expect(seen == ["a", "1", #"{"b":[]}"#, "[2]", "c"])
    }

    @Test func `a string equals the text that its escapes stand for`() throws {
        for text in [#""token""#, #""\u0074oken""#, #""toke\u006E""#] {
            #expect(try asking(text) { $0.equals("token", in: $1) })
        }
        for text in [#""Token""#, #""toke""#, #""tokens""#, #""\u0054oken""#, #""token\u0000""#] {
            #expect(try asking(text) { !$0.equals("token", in: $1) })
        }
    }

    @Test func `an object or array has the escapes of its strings`() throws {
        for text in [#"["a\n"]"#, #"{"\u0061":1}"#, #"[[],{"a":[{"b":"c\\"},""]},"d"]"#] {
            #expect(try asking(text) { slice, _ in slice.hasEscapes })
            #expect(try asking(text) { $0.text(in: $1) } == text)
            #expect(try asking(text) { $0.utf8(in: $1) } == Array(text.utf8))
        }
        for text in ["[]", "{}", #"{"a":["b",{"c":"é"}]}"#] {
            #expect(try asking(text) { slice, _ in !slice.hasEscapes })
        }
    }

    @Test func `an integer is exact to its last bit or out of range`() throws {
        #expect(try integer("0") == .exact(0))
        #expect(try integer("-0") == .exact(0))
        #expect(try integer("9007199254740993") == .exact(9_007_199_254_740_993))
        #expect(try integer("9223372036854775807") == .exact(.max))
        #expect(try integer("-9223372036854775808") == .exact(.min))
        #expect(try integer("9223372036854775808") == .outOfRange(isNegative: false))
        #expect(try integer("-9223372036854775809") == .outOfRange(isNegative: true))
        #expect(try integer("18446744073709551616") == .outOfRange(isNegative: false))
        #expect(try integer("100000000000000000000000000000") == .outOfRange(isNegative: false))
    }

    @Test(arguments: ["1.0", "1e3", "-0.0", "1E0", #""1""#, "true", "null", "[]"])
    func `a number with anything but digits is no integer`(text: String) throws {
        #expect(try integer(text) == nil)
    }

    @Test func `a number is the nearest double`() throws {
        let values: [(String, Double?)] = [
            ("1.5", 1.5), ("-2e-3", -0.002), ("1e999", .infinity), ("0", 0), ("1763764201.25", 1_763_764_201.25), (#""1""#, nil),
        ]
        for (text, value) in values {
            #expect(try asking(text) { $0.double(in: $1) } == value)
        }
    }
}

@Suite("Writing records")
struct WritingTests {
    private func written(_ text: String) -> String {
        var bytes: [UInt8] = []
        bytes.appendJSONString(text)
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test func `only what must be escaped is`() {
        #expect(written("plain é 😀 / \u{7F}") == "\"plain é 😀 / \u{7F}\"")
        #expect(written("\"\\\u{8}\u{9}\n\u{C}\r\u{0}\u{1F}") == #""\"\\\b\t\n\f\r\u0000\u001f""#)
        #expect(written("") == "\"\"")
    }

    @Test func `written strings read back the same`() throws {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<500 {
            var text = ""
            for _ in 0..<Int.random(in: 0..<20, using: &generator) {
                text.unicodeScalars.append(Unicode.Scalar(UInt32.random(in: 0..<0x250, using: &generator)) ?? " ")
            }
            var bytes: [UInt8] = []
            bytes.appendJSONString(text)
            #expect(try JSONValue.parse(bytes) == .string(text))
        }
    }

    @Test func `Base64 has the vectors of RFC 4648`() {
        let vectors = [
            ("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ]
        for (plain, encoded) in vectors {
            #expect(Base64.encode(Array(plain.utf8)) == Array(encoded.utf8))
            #expect(Base64.decode(Array(encoded.utf8)) == Array(plain.utf8))
            #expect(Base64.encode(Array(plain.utf8), as: .url) == Array(encoded.utf8).filter { $0 != UInt8(ascii: "=") })
        }
        #expect(Base64.encode(([0xFB, 0xFF, 0xBF] as [UInt8])) == Array("+/+/".utf8))
        #expect(Base64.encode(([0xFB, 0xFF, 0xBF] as [UInt8]), as: .url) == Array("-_-_".utf8))
    }

    @Test func `Base64 of any bytes decodes to them`() {
        var generator = SeededGenerator(seed: 3)
        for length in 0..<200 {
            let bytes = (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }
            #expect(Base64.decode(Base64.encode(bytes)) == bytes)
            #expect(Base64.decode(Base64.encode(bytes, as: .url), as: .url) == bytes)
        }
    }

    @Test(arguments: ["Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zg==Zg==", "Z===", "====", "Zm9 ", "Zm9v\n", "Zm-_", "=Zm9"])
    func `Base64 refuses what it would never write`(text: String) {
        #expect(Base64.decode(Array(text.utf8)) == nil)
    }

    @Test(arguments: ["Z", "Zg==", "Zh", "Zm9v\n", "Zm+/", "=Zm9"])
    func `Base64 for URLs refuses a text that it never writes`(text: String) {
        #expect(Base64.decode(Array(text.utf8), as: .url) == nil)
    }
}
