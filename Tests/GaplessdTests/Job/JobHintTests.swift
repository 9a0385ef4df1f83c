import JSONBytes
import RedisQueue
import Testing

@testable import gaplessd

@Suite("A bad job names the likely mistake")
struct JobHintTests {
    private static let digits = String(repeating: "0a1b2c3d", count: 8)

    private func read(_ text: String) throws(JobError) -> Job {
        var reader = JobReader(retryLimit: 3, appNames: [])
        return try reader.read(Array(text.utf8))
    }

    private func fault(_ text: String) -> String? {
        do {
            _ = try read(text)
            return nil
        } catch { return error.description }
    }

    @Test(arguments: [
        "<0a1b2c3d 0a1b2c3d>", "0a1b2c3d 0a1b2c3d", " 0a1b2c3d0a1b2c3d", #"0a1b2c3d0a1b2c3d\n"#, #"<0a1b\t2c3d0a1b2c3d>\r\n"#,
        #"<\u0030a1b2c3d 0a1b2c3d>"#,
    ])
    func `blanks and brackets in a token are ignored`(token: String) throws {
        let job = try read(#"{"token":"\#(token)","data":{}}"#)
        #expect(job.text(of: job.tokens[0]) == "0a1b2c3d0a1b2c3d")
        #expect(job.tokens[0].fault == nil)
        let sent = try #require(job.rewritten(maskedPayload: nil))
        #expect(String(decoding: sent.bytes[sent.token], as: UTF8.self) == "0a1b2c3d0a1b2c3d")
        let several = try read(#"{"tokens":["\#(token)","ab"],"data":{}}"#)
        #expect(several.tokens.map(\.fault) == [nil, nil])
        #expect(several.tokens.map { several.text(of: $0) } == ["0a1b2c3d0a1b2c3d", "ab"])
        let parts = try #require(several.singleParts(several.tokens.map(\.value)))
        let part = parts.prefix + several.bytes[parts.ranges[0]] + parts.suffix
        let single = try read(String(decoding: part, as: UTF8.self))
        #expect(single.text(of: single.tokens[0]) == "0a1b2c3d0a1b2c3d")
        #expect(JobFacts(Array(#"{"token":"\#(token)"}"#.utf8))?.tokens == ["0a1b2c3d0a1b2c3d"])
        #expect(JobSelection(token: "<0A1B2C3D 0a1b2c3d>").matches(job.bytes))
        #expect(PushQuery(.token, "0a1b2c3d 0a1b2c3d").matches(job: job.bytes))
    }

    @Test(arguments: [
        ("<>", "token is empty at byte 9"), ("  ", "token is empty at byte 9"), ("<0a>x", "token is not hex at byte 14"),
        (#"\n\u0030<z"#, "token is not hex at byte 19"),
    ])
    func `nothing else is`(token: String, fault: String) {
        #expect(self.fault(#"{"token":"\#(token)","data":{}}"#) == fault)
    }

    @Test func `the digits and the whole text have a bound`() throws {
        let longest = String(repeating: "a", count: 1000)
        #expect(try read(#"{"token":"<\#(longest)>","data":{}}"#).tokens.count == 1)
        let tooLong = "token is longer than 1000 digits at byte 9"
        #expect(fault(#"{"token":"<\#(longest)a>","data":{}}"#) == tooLong)
        #expect(fault(#"{"token":"a\#(String(repeating: " ", count: 2000))","data":{}}"#) == tooLong)
        #expect(fault(#"{"token":"\#(String(repeating: #"\u0061"#, count: 3000))","data":{}}"#) == tooLong)
    }

    @Test(arguments: [
        ("Oj8vMbl0YcKfYxWqJm0TrKcbrvVT1hC9nLJwYb7r0Wk=", "at byte 10 (it looks like base64; expected hex digits)"),
        ("Oj8vMbl0YcKfYxWqJm0TrKcbrvVT1hC9nLJwYb7r0Wk", "at byte 10 (it looks like base64; expected hex digits)"),
        ("apns:\(digits)", "at byte 11 (it has a prefix; expected only the hex digits)"),
        ("0x\(digits)", "at byte 11 (it has a prefix; expected only the hex digits)"),
        ("\u{FEFF}\(digits)", "at byte 10 (it begins with a byte order mark)"),
        ("dXsj9:APA91bHun4MxP5egoKMwt2KZFBaFUH", "at byte 11 (it is a token of Firebase, not of APNs)"),
        ("q7q7q7q7q7q7q7q7q7q7q7q7q7q7q7q7q7q7q7q7q7o=", "at byte 10 (it looks like base64; expected hex digits)"),
        ("q83vEjQ=", "at byte 10 (it looks like base64; expected hex digits)"),
        ("apns:0a1b2c3d", "at byte 11 (it has a prefix; expected only the hex digits)"),
        ("token=0a1b2c3d", "at byte 10 (it has a prefix; expected only the hex digits)"),
        ("0X0a1b", "at byte 11 (it has a prefix; expected only the hex digits)"),
        ("[0a1b2c3d]", "at byte 10 (it has brackets or quotes; expected only the hex digits)"),
        ("{0a1b2c3d}", "at byte 10 (it has brackets or quotes; expected only the hex digits)"),
        ("0a:1b:2c:3d", "at byte 12 (it has characters between the digits; expected only the hex digits)"),
        (
            "123e4567-e89b-12d3-a456-426614174000",
            "at byte 18 (it has characters between the digits; expected only the hex digits)"
        ),
        ("ExponentPushToken[ab]", "at byte 11 (it is a token of Expo, not of APNs)"),
        ("../../etc/passwd", "at byte 10"), ("zz", "at byte 10"),
    ])
    func `a token`(token: String, rest: String) {
        #expect(fault(#"{"token":"\#(token)","data":{}}"#) == "token is not hex \(rest)")
    }

    @Test func `the first of many bad tokens has the hint`() {
        let tokens = (0..<11).map { _ in #""0x\#(Self.digits)""# }.joined(separator: ",")
        #expect(
            fault(#"{"tokens":[\#(tokens)],"data":{}}"#)
                == "11 tokens are invalid; first fault: token is not hex at byte 13 "
                + "(it has a prefix; expected only the hex digits)"
        )
    }

    @Test func `a payload that is not in data`() {
        #expect(fault(#"{"token":"ab","aps":{"alert":"x"}}"#) == "data is missing (aps belongs in data)")
        #expect(fault(#"{"token":"ab"}"#) == "data is missing")
    }

    @Test(arguments: [
        (#"{"a":1,}"#, "expected a key at byte 7 (a comma before '}')"),
        (#"{"a":[1,]}"#, "expected a value at byte 8 (a comma before ']')"),
        (#"{"a":}"#, "expected a value at byte 5 (a value is missing)"),
        (#"{"a":1,,"b":2}"#, "expected a key at byte 7 (a comma too many)"),
        (#"{"a":1 // why"#, "expected ',' or '}' at byte 7 (JSON has no comments)"),
        ("{# why\n\"a\":1}", "expected a key or '}' at byte 1 (JSON has no comments)"),
        ("{/* why */\"a\":1}", "expected a key or '}' at byte 1 (JSON has no comments)"),
        ("{'a':1}", "expected a key or '}' at byte 1 (strings have double quotes)"),
        ("{a:1}", "expected a key or '}' at byte 1 (a key has double quotes)"),
        (#"{"a":abc}"#, "expected a value at byte 5 (a string has double quotes)"),
        (#"{"a":True}"#, "expected a value at byte 5 (True is not JSON; expected true, false or null)"),
        (#"{"a":None}"#, "expected a value at byte 5 (None is not JSON; expected true, false or null)"),
        (#"{"a":NaN}"#, "expected a value at byte 5 (NaN is not JSON)"),
        ("{“a”:1}", "expected a key or '}' at byte 1 (typographic quotes; strings have plain double quotes)"),
        (#"{"a":"say "hi""}"#, "expected ',' or '}' at byte 11 (a quote within a string needs a backslash, or one is missing)"),
        (
            "{\"a\":\"b\nc\"}",
            "expected an escape instead of a control character at byte 7 (a line break within a string, or a missing quote)"
        ),
        (#"{"a":"b}"#, "expected '\"' at byte 8 (a quote is missing, or the end of the text)"),
        (#"{"a":1"#, "expected ',' or '}' at byte 6 (the end of the text is missing)"),
        ("", "expected '{' at byte 0 (it is empty)"),
        (#"{"a":1}{"b":2}"#, "expected nothing more at byte 7 (more than one value)"),
        ("\u{FEFF}{}", "expected '{' at byte 0 (a byte order mark at the start)"),
        ("[{}]", "expected '{' at byte 0 (an array; one element of the list is one object)"),
        (#""{\"a\":1}""#, "expected '{' at byte 0 (JSON within a string: it was encoded twice)"),
        ("b'{}'", "expected '{' at byte 0 (Python's form of bytes, not JSON)"),
        ("a:1:{}", "expected '{' at byte 0 (PHP's serialize, not JSON)"),
        (#"{"a":1 "b":2}"#, "expected ',' at byte 7"), (#"{"a" 1}"#, "expected ':' at byte 5"),
        (#"{"a":01}"#, "expected ',' or '}' at byte 6"),
    ])
    func `JSON`(text: String, fault: String) {
        #expect(self.fault(text) == fault)
    }
}
