import Harness
import JSONBytes
import Testing

@Suite("The grammar of RFC 8259")
struct GrammarTests {
    @Test(arguments: [
        "{}", "[]", " [ ] ", "\t\r\n{ }\n", "null", "true", "false", "0", "-0", "-1", "10", "0.5", "-0.0", "1e5", "1E+5", "1e-05",
        "123.456e78",
        "0e0", "\"\"", "\" \"", #""\"\\\/\b\f\n\r\t""#, #""\u0000\uFFFF\uabCD""#, #""\ud83d\ude00""#, #""\ud800""#,
        #""\udc00\ud800""#,
        "\"\u{7F}\"", "\"é\"", "\"€\"", "\"😀\"", "\"\u{10FFFF}\"", "\"\u{FFFF}\"", "\"\u{2028}\"", "[1,2,3]", "[[],{}]",
        "[1 , 2]",
        #"{"":0}"#, #"{"a":1,"a":2}"#, #"{"a":{"b":[{"c":null}]}}"#, #"{ "a" : 1 , "b" : [ true , false ] }"#,
        "123456789012345678901234567890", "1e999", "-1e-999", #"["1234567","12345678","123456789"]"#, #""12345678\n12345678\n""#,
        "\"1234567é12345678é\"", "[\"\",0]", "[\"asd\"]\n",
    ])
    func `accepts what it allows`(text: String) {
        #expect(fault(in: text) == nil)
    }

    @Test(arguments: [
        "", " ", "{", "}", "[", "]", "[1", "[1,", "[1,]", "[,]", "[,1]", "[1,,2]", "[1 2]", "[1}", "{]", "{1:2}", "{a:1}",
        "{'a':1}", #"{"a"}"#,
        #"{"a":}"#, #"{"a":1,}"#, #"{,"a":1}"#, #"{"a":1,,"b":2}"#, #"{"a" "b"}"#, #"{"a"::1}"#, #"{"a":1}}"#, "[]]", "[] []",
        "1 1", "nul", "nulll",
        "Null", "TRUE", "tru", "fals", "truee", "NaN", "Infinity", "-Infinity", "-", "+1", "01", "-01", "00", "1.", ".5", "-.5",
        "1.e5", "1e", "1e+",
        "1E-", "1e1.5", "0x1", "1_0", "1a", "--1", "1.2.3", "\"", "\"a", "\"\\\"", "\"\\", #""\a""#, #""\x41""#, #""\'""#,
        #""\u""#, #""\u12""#,
        #""\u123""#, #""\u12G4""#, #""\U0041""#, "\"\t\"", "\"\n\"", "\"\r\"", "\"\u{0}\"", "\"\u{1F}\"", "\"12345678\u{1}\"",
        "'a'", "// a\n1",
        "/* a */1", "1 // a", "\u{FEFF}1", "\u{A0}1", "\u{0B}1", "\u{0C}1", "[1\u{0}]", "\u{0}", "[\u{0}]", "{\"a\":1\u{0}", "１",
    ])
    func `refuses what it does not allow`(text: String) {
        #expect(fault(in: text) != nil)
    }

    @Test(
        arguments: [
            [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC2], [0xC2, 0x41], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF],
            [0xE2, 0x82], [0xE2, 0x82, 0x41],
            [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF], [0xF0, 0x9F, 0x98],
            [0xF4, 0x90, 0x80, 0x80],
            [0xF5, 0x80, 0x80, 0x80], [0xFE], [0xFF], [0xC3, 0xA9, 0xFF],
        ] as [[UInt8]])
    func `refuses a string that is not UTF-8 and names the byte`(raw: [UInt8]) {
        for before in ["", "1234567", "12345678"] {
            let text = Array("[\"\(before)".utf8) + raw + Array("\"]".utf8)
            let start = 2 + before.utf8.count + (raw == [0xC3, 0xA9, 0xFF] ? 2 : 0)
            #expect(fault(in: text) == JSONError(offset: start, expected: .validUTF8))
            #expect(!isValidUTF8(text))
        }
    }

    @Test func `takes every scalar of Unicode`() {
        var text = Array("\"".utf8)
        for value in UInt32(0x80)...0x10FFFF {
            guard value % 7 == 0 || value < 0x3000 || value > 0x10FF00, let scalar = Unicode.Scalar(value) else { continue }
            text += Array(String(scalar).utf8)
        }
        text += Array("\"".utf8)
        #expect(fault(in: text) == nil)
        #expect(isValidUTF8(text))
    }

    @Test func `finds what ends a string at every place of a step`() throws {
        for length in 0..<40 {
            let plain = String(repeating: "x", count: length)
            #expect(fault(in: "\"\(plain)\"") == nil)
            #expect(fault(in: "\"\(plain)") == JSONError(offset: length + 1, expected: .quote))
            #expect(fault(in: "\"\(plain)\u{1F}234567890\"") == JSONError(offset: length + 1, expected: .noControlCharacter))
            #expect(fault(in: "\"\(plain)\\q1234567890\"") == JSONError(offset: length + 2, expected: .escape))
            #expect(try slice(of: Array("\"\(plain)\" \"1234567890\"".utf8)).range == 0..<length + 2)
        }
    }

    @Test func `judges every byte at every place of a string alike`() {
        let limits: [UInt8] = [0, 0x1F, 0x20, 0x21, 0x22, 0x23, 0x5B, 0x5C, 0x5D, 0x7F, 0x80, 0xFF]
        for byte in UInt8.min...UInt8.max {
            for place in limits.contains(byte) ? 0..<40 : 20..<21 {
                for rest in 0..<18 {
                    let x = UInt8(ascii: "x")
                    let before = [UInt8](repeating: x, count: place)
                    let text = Array("[\"".utf8) + before + [byte] + Array(repeating: x, count: rest) + Array("\"]".utf8)
                    let at = 2 + place
                    let expected: JSONError? =
                        switch byte {
                        case 0..<0x20: JSONError(offset: at, expected: .noControlCharacter)
                        case 0x80...: JSONError(offset: at, expected: .validUTF8)
                        case UInt8(ascii: "\""): JSONError(offset: at + 1, expected: rest == 0 ? .comma : .commaOrArrayEnd)
                        case UInt8(ascii: "\\") where rest == 0: JSONError(offset: text.count, expected: .quote)
                        case UInt8(ascii: "\\"): JSONError(offset: at + 1, expected: .escape)
                        default: nil
                        }
                    if fault(in: text) != expected { Issue.record("byte \(byte) at \(place), \(rest) bytes before the quote") }
                }
            }
        }
    }

    @Test func `a cut text is a fault at its end`() {
        let text = Array(#"{"a":[1.5e3,true,"x\u0041é",{"b":null}],"c":-0}"#.utf8)
        for length in 0..<text.count {
            #expect(fault(in: Array(text[..<length])) != nil, "cut at \(length)")
        }
        #expect(fault(in: text) == nil)
    }
}

@Suite("Texts of any size")
struct SizeTests {
    @Test func `a hundred thousand open containers are closed in the right order`() {
        var generator = SeededGenerator(seed: 1)
        var opening: [UInt8] = []
        var closing: [UInt8] = []
        for _ in 0..<100_000 {
            let isObject = Bool.random(using: &generator)
            opening += Array((isObject ? #"{"":"# : "[").utf8)
            closing.append(UInt8(ascii: isObject ? "}" : "]"))
        }
        let text = opening + Array("0".utf8) + closing.reversed()
        #expect(fault(in: text) == nil)
        for depth in [0, 1, 61, 62, 63, 64, 65, 124, 125, 126, 127, 128, 129, 99_999] {
            var wrong = text
            let place = text.count - 1 - depth
            wrong[place] = text[place] == UInt8(ascii: "}") ? UInt8(ascii: "]") : UInt8(ascii: "}")
            #expect(fault(in: wrong)?.offset == place)
        }
        #expect(fault(in: opening)?.offset == opening.count)
        #expect(fault(in: [UInt8](repeating: UInt8(ascii: "["), count: 1_000_000))?.offset == 1_000_000)
    }

    @Test func `twenty megabytes are read`() {
        let text = Array("[\"".utf8) + [UInt8](repeating: UInt8(ascii: "x"), count: 20 << 20) + Array("\"]".utf8)
        #expect(fault(in: text) == nil)
        #expect(fault(in: Array(text.dropLast()))?.offset == text.count - 1)
    }
}
