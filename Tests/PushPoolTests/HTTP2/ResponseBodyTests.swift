import Harness
import Testing

@testable import PushPool

@Suite("The body of a response")
struct ResponseBodyTests {
    private func read(_ text: String) -> ResponseBody { ResponseBody(Array(text.utf8)) }

    @Test func `a reason and a timestamp`() {
        let body = read(#"{"reason":"Unregistered","timestamp":1700000000123}"#)
        #expect(body.reason == "Unregistered")
        #expect(body.timestamp == 1_700_000_000_123)
    }

    @Test func `white space, other members and any order do not matter`() {
        let body = read(" {\n \"a\" : [1, {\"reason\":\"no\"}, \"]\"],\"timestamp\" : 5 , \"reason\":\"Yes\" , \"b\":null } ")
        #expect(body.reason == "Yes")
        #expect(body.timestamp == 5)
    }

    @Test func `escapes are read`() {
        #expect(read(#"{"reason":"a\"b\\c\/d\u0041"}"#).reason == #"a"b\c/dA"#)
        #expect(read(#"{"reason":"a\nb\u0007c\ud800"}"#).reason == "a b c\u{FFFD}")
    }

    @Test func `a timestamp that is no integer is left out`() {
        #expect(read(#"{"reason":"X","timestamp":"soon"}"#).timestamp == nil)
        #expect(read(#"{"reason":"X","timestamp":1e3}"#).timestamp == nil)
        #expect(read(#"{"reason":"X","timestamp":99999999999999999999}"#).timestamp == nil)
    }

    @Test(arguments: [
        "", "{", "}", "[]", "null", "{}x", #"{"reason"}"#, #"{"reason":"#, #"{"reason":"X"#, #"{"reason":"X""#, #"{"reason":"\"#,
        #"{"reason":"\u00"#, #"{"a":[}"#, #"{"a":}"#, "<html>502</html>", #"{"reason":7}"#, "{\"a\":1,}",
    ]) func `any other body becomes text`(text: String) {
        #expect(read(text).reason == text)
    }

    @Test func `an object without a reason is shown as it is`() {
        #expect(read("{}").reason == "{}")
        #expect(read("").reason == "")
    }

    @Test func `text is cut to 200 bytes and its control characters go`() {
        #expect(read(String(repeating: "x", count: 500)).reason.utf8.count == 200)
        #expect(read("a\u{1B}[31m\r\nb\u{2028}c").reason == "a [31m  b c")
        #expect(ResponseBody([0xFF, 0x41]).reason == "\u{FFFD}A")
    }

    @Test(arguments: 0..<200) func `no bytes whatever stop it`(round: Int) {
        var generator = SeededGenerator(seed: UInt64(round))
        let alphabet = Array(#"{}[]",:\u reason0123timestamp"#.utf8) + [0, 0xFF, 0xC3]
        for _ in 0..<50 {
            var bytes = Array(#"{"reason":"X","timestamp":12}"#.utf8)
            for _ in 0..<Int.random(in: 1...6, using: &generator) {
                let place = Int.random(in: 0..<bytes.count, using: &generator)
                bytes[place] = alphabet.randomElement(using: &generator) ?? 0
            }
            bytes.removeLast(Int.random(in: 0..<bytes.count, using: &generator))
            #expect(ResponseBody(bytes).reason.utf8.count <= 3 * ResponseBody.mostText)
        }
    }
}
