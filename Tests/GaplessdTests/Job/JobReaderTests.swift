import Testing

@testable import gaplessd

private let token = "071c09ab"

/// The job of the original's README: a token of 63 digits.
private let sample = #"{"token":"\#(String(repeating: "a1f", count: 21))","data":{"aps":{"alert":"Hello"}}}"#

private func read(_ text: String, retryLimit: Int = 3, apps: Set<String> = ["beta", "main app"]) throws(JobError) -> Job {
    var reader = JobReader(retryLimit: retryLimit, appNames: apps)
    return try reader.read(Array(text.utf8))
}

/// A job with these further members.
private func job(with members: String) throws(JobError) -> Job {
    try read(#"{"token":"\#(token)","data":{"aps":{"alert":"x"}},\#(members)}"#)
}

private func job(withData data: String) throws(JobError) -> Job {
    try read(#"{"token":"\#(token)","data":\#(data)}"#)
}

private func text(_ job: Job, _ range: Range<Int>) -> String { String(decoding: job.bytes[range], as: UTF8.self) }

/// Returns the error of the read as text, or "" without an error.
private func fault(_ read: () throws(JobError) -> Job) -> String {
    do {
        _ = try read()
        return ""
    } catch {
        return error.kind == .unmarshal ? "unmarshal: \(error)" : error.description
    }
}

@Suite("Reading a job")
struct JobReaderTests {
    @Test func `the sample of the original is a job with all defaults`() throws {
        let job = try read(sample)
        #expect(text(job, try #require(job.tokens.first).digits) == String(repeating: "a1f", count: 21))
        #expect(text(job, job.data) == #"{"aps":{"alert":"Hello"}}"#)
        #expect(job.identifier == nil && job.identifierJSON == Array("0".utf8))
        #expect(job.attempts == 0 && job.expiry == .after(7200) && job.deadline == nil)
        #expect(job.pushType == "alert" && job.priority == 10)
        #expect(job.app == nil && job.topic == nil && job.collapseID == nil && job.apnsID == nil && job.notBefore == nil)
    }

    @Test func `every member is read, in any order and between any white space`() throws {
        let job = try read(
            """
            { "not_before" : 1.5e3 , "_gapless_deadline":5, "apns_id":"0A1B2C3D-0000-1111-2222-333344445555" ,
              "collapse_id":"c\\u0061t", "priority":1,"push_type":"not-known","topic":"com.example.beta", "app":"beta", \
              "unknown":[{}],
              "expiry":60, "_gapless_RETRYING": 2, "identifier":"id \\"1\\"", "data": { "aps" : [ 1.50 ] } , "token":"ABcd0" }
            """)
        #expect(job.notBefore == 1500 && job.deadline == 5 && job.apnsID == "0a1b2c3d-0000-1111-2222-333344445555")
        #expect(job.collapseID == "cat" && job.priority == 1 && job.pushType == "not-known")
        #expect(job.topic == "com.example.beta" && job.app == "beta" && job.expiry == .after(60) && job.attempts == 2)
        #expect(job.identifierJSON == Array(#""id \"1\"""#.utf8))
        #expect(text(job, job.data) == "{ \"aps\" : [ 1.50 ] }")
        guard case .token(let digits) = job.target else { throw JobError.structure("no token") }
        #expect(text(job, digits) == "ABcd0")
    }

    @Test(arguments: [
        ("", "expected '{' at byte 0"), ("[]", "expected '{' at byte 0"), ("null", "expected '{' at byte 0"),
        ("{", "expected a key or '}' at byte 1"),
        (#"{"token":"071c"  "data":{}}"#, "expected ',' at byte 17"),
        (#"{"token":"07","data":{}} x"#, "expected nothing more at byte 25"),
        (#"{"token":"07","data":{"a":01}}"#, "expected ',' or '}' at byte 27"),
        (#"{"data":{"aps":{"alert":"#, "expected a value at byte 24"),
        (#"{"token":1 "data":[}"#, "expected ',' at byte 11"),
        ("{\"token\":\"0\n\"}", "expected an escape instead of a control character at byte 11"),
    ])
    func `bytes that are not a JSON object are an error with their offset`(json: String, expected: String) {
        // A hint may follow.
        let found = fault { () throws(JobError) in try read(json) }
        #expect(found == "unmarshal: \(expected)" || found.hasPrefix("unmarshal: \(expected) ("))
    }

    @Test(arguments: [
        ("{}", "token is missing"), (#"{"data":{}}"#, "token is missing"), (#"{"token":null,"data":{}}"#, "token is missing"),
        (#"{"token":"ab","token":null,"data":{}}"#, "token is missing"),
        (#"{"token":7,"data":{}}"#, "token is not a string at byte 9"),
        (#"{"token":["ab"],"data":{}}"#, "token is not a string at byte 9"),
        (#"{"token":"","data":{}}"#, "token is empty at byte 9"),
        (#"{"token":"abxd","data":{}}"#, "token is not hex at byte 12"),
        (#"{"token":"a\u0062\u000063","data":{}}"#, "token is not hex at byte 17"),
        (#"{"token":"a\/b","data":{}}"#, "token is not hex at byte 11"),
        (#"{"token":"\ud83d\ude00","data":{}}"#, "token is not hex at byte 10"),
        (#"{"token":"\#(String(repeating: "\\u0061", count: 1001))","data":{}}"#, "token is longer than 1000 digits at byte 9"),
        (#"{"token":"[ab]","data":{}}"#, "token is not hex at byte 10 (it has brackets or quotes; expected only the hex digits)"),
        (#"{"token":"ab/../cd","data":{}}"#, "token is not hex at byte 12"),
        (#"{"token":"ａ","data":{}}"#, "token is not hex at byte 10"),
        (#"{"token":"ab","tokens":["ab"],"data":{}}"#, "token and tokens are both given at byte 23"),
        (#"{"tokens":"ab","data":{}}"#, "tokens is not an array at byte 10"),
        (#"{"tokens":[ ],"data":{}}"#, "tokens is empty at byte 10"),
        (#"{"token":"ab"}"#, "data is missing"), (#"{"token":"ab","data":null}"#, "data is missing"),
        (#"{"token":"ab","data":{},"data":null}"#, "data is missing"),
        (#"{"token":"ab","data":"{}"}"#, "data is not an object at byte 21"),
        (#"{"token":"ab","data":[{}]}"#, "data is not an object at byte 21"),
    ])
    func `an object that is not a job is an error with reason and offset`(json: String, expected: String) {
        #expect(fault { () throws(JobError) in try read(json) } == expected)
    }

    @Test func `a token is its decoded text, whatever its escapes`() throws {
        let job = try read(#"{"token":"\u0061B\u0043\u0030","data":{"a":1}}"#)
        #expect(job.text(of: job.tokens[0]) == "aBC0")
        let out = try #require(job.rewritten(maskedPayload: nil))
        #expect(String(decoding: out.bytes[out.token], as: UTF8.self) == "aBC0")
        #expect(String(decoding: out.bytes[out.payload], as: UTF8.self) == #"{"a":1}"#)
        #expect(try read(#"{"token":"\#(String(repeating: "\\u0061", count: 1000))","data":{}}"#).tokens.count == 1)
        let plain = try read(#"{"token":"abc0","data":{}}"#)
        #expect(plain.rewritten(maskedPayload: nil) == nil, "no copy where there is no escape")
        let many = try read(#"{"tokens":["\u0061b","a\u002f","cd"],"data":{}}"#)
        #expect(many.tokens.map(\.fault) == [nil, .notHex, nil])
        #expect(many.tokens.map { many.text(of: $0) } == ["ab", "a/", "cd"])
    }

    @Test(arguments: [
        ("1795338849000", true), ("100000000000", true), ("99999999999", false), ("1795338849.5", false),
        ("-1795338849000", false),
    ])
    func `a not_before in milliseconds causes a warning`(time: String, isHinted: Bool) throws {
        #expect((try job(with: #""not_before":\#(time)"#).notBeforeHint != nil) == isHinted)
    }

    @Test(arguments: [
        (#""expires_at":1895300000000"#, JobKey.expiresAt), (#""expires_at":1895300000"#, nil),
        (#""expires_at":99999999999.9"#, nil), (#""expires_at":-1895300000000"#, nil), (#""expiry":1895300000"#, .expiry),
        (#""expiry":1000000000000000000"#, .expiry), (#""expiry":999999999"#, nil),
        (#""expiry":1895300000,"expires_at":1895300000"#, nil),
    ])
    func `an expiry in a wrong unit causes a warning that names the key`(members: String, key: JobKey?) throws {
        let hint = try job(with: members).expiryHint
        #expect(hint?.key == key && hint?.text.hasPrefix(key.map { "\($0.name)" } ?? "") != false)
    }

    @Test(arguments: [
        (#""expiry":60.9"#, Job.Expiry.after(60)), (#""expiry":1e3"#, .after(1000)), (#""expiry":0.5"#, .after(0)),
        (#""expires_at":1895300000.0"#, .at(1_895_300_000)), (#""expires_at":1895300000.75"#, .at(1_895_300_000)),
        (#""expires_at":9e18"#, .at(9_000_000_000_000_000_000)),
    ])
    func `fractions of an expiry are dropped`(members: String, expiry: Job.Expiry) throws {
        #expect(try job(with: members).expiry == expiry)
    }

    @Test func `the topic of a broadcast is its decoded text, too`() throws {
        let job = try read(#"{"channel":"AAAA","topic":"com\u002eexample","data":{}}"#)
        #expect(job.topic == "com.example")
    }

    @Test func `a dead letter names a token by its text`() {
        #expect(JobReader.identity(of: Array(#"{"token":"\u0061x"}"#.utf8)).token == "ax")
        #expect(
            JobReader.identity(of: Array(#"{"token":"\#(String(repeating: "\\u0061", count: 1000))"}"#.utf8)).token?.utf8.count
                == 1000)
        #expect(JobReader.identity(of: Array(#"{"token":"\#(String(repeating: "a", count: 1001))"}"#.utf8)).token == nil)
    }

    @Test(arguments: [
        (#""identifier":1.0"#, "identifier is neither an integer nor a string"),
        (#""identifier":true"#, "identifier is neither an integer nor a string"),
        (#""identifier":{}"#, "identifier is neither an integer nor a string"),
        (#""identifier":18446744073709551616"#, "identifier is beyond 64 bits"),
        (#""identifier":-9223372036854775809"#, "identifier is beyond 64 bits"), (#""expiry":"60""#, "expiry is not a number"),
        (#""expiry":1e19"#, "expiry is beyond 64 bits"), (#""expiry":-0.5"#, "expiry is negative"),
        (#""expiry":-1"#, "expiry is negative"),
        (#""expiry":9223372036854775808"#, "expiry is beyond 64 bits"), (#""expires_at":true"#, "expires_at is not a number"),
        (#""priority":7"#, "priority is not 1, 5 or 10"), (#""priority":"10""#, "priority is not 1, 5 or 10"),
        (#""priority":10.0"#, "priority is not 1, 5 or 10"),
        (#""not_before":"soon""#, "not_before is not a number"), (#""not_before":1e999"#, "not_before is out of range"),
        (#""not_before":-1e300"#, "not_before is out of range"), (#""topic":5"#, "topic is not a string"),
        (#""topic":"""#, "topic is empty"),
        (#""topic":"a\u0000""#, "topic has a control character"), (#""topic":"a\r\nb: c""#, "topic has a control character"),
        (#""push_type":"a\u007f""#, "push_type has a control character"),
        (#""push_type":"\u0085""#, "push_type has a control character"),
        (#""push_type":"""#, "push_type is empty"), (#""push_type":[]"#, "push_type is not a string"),
        (#""topic":" a""#, "topic begins or ends with a space"),
        (#""collapse_id":"a ""#, "collapse_id begins or ends with a space"), (#""collapse_id":"""#, "collapse_id is empty"),
        (#""collapse_id":1"#, "collapse_id is not a string"), (#""app":"gamma""#, "app \"gamma\" is unknown"),
        (#""app":"""#, "app is empty"),
        (#""app":"x\n""#, "app has a control character"), (#""app":3"#, "app is not a string"),
        (#""campaign":"""#, "campaign is empty"), (#""campaign":7"#, "campaign is not a string"),
        (#""campaign":"\#(String(repeating: "é", count: 32))x""#, "campaign is 65 bytes long, over the 64 that are allowed"),
        (#""apns_id":"""#, "apns_id is empty"), (#""trace":7"#, "trace is not a string"),
        (#""trace":"\#(String(repeating: "é", count: 64))x""#, "trace is longer than 128 bytes"),
        (#""trace":"\#(String(repeating: "x", count: 1000))""#, "trace is longer than 128 bytes"),
        (#""apns_id":"0a1b2c3d00001111222233334444555""#, "apns_id is not a UUID"),
        (#""apns_id":"{0a1b2c3d-0000-1111-2222-333344445555}""#, "apns_id is not a UUID"),
        (#""apns_id":"0a1b2c3d-0000-1111-2222-33334444555g""#, "apns_id is not a UUID"),
        (#""apns_id":"0a1b2c3d-0000-1111-2222-3333444455é""#, "apns_id is not a UUID"),
    ])
    func `a member out of its bounds is an error`(member: String, expected: String) {
        let fault = fault { () throws(JobError) in try job(with: member) }
        let offset =
            #"{"token":"071c09ab","data":{"aps":{"alert":"x"}},"#.utf8.count
            + member.utf8.prefix { $0 != UInt8(ascii: ":") }.count + 1
        #expect(fault == "\(expected) at byte \(offset)")
    }

    @Test(arguments: [
        "identifier", "expiry", "expires_at", "app", "topic", "push_type", "priority", "collapse_id", "apns_id", "not_before",
        "tokens", "trace", "campaign", "_gapless_RETRYING", "_gapless_deadline", "_gapless_apns_id",
    ])
    func `null is equivalent to an absent key`(key: String) throws {
        let plain = try job(with: #""x":0"#)
        let job = try job(with: #""\#(key)":7,"\#(key)":null"#)
        #expect(
            job.identifier == nil && job.expiry == plain.expiry && job.app == nil && job.topic == nil && job.pushType == "alert")
        #expect(
            job.priority == 10 && job.collapseID == nil && job.apnsID == nil && job.trace == nil && job.campaign == nil
                && job.notBefore == nil
                && job.attempts == 0
                && job.deadline == nil)
        #expect(job.target == plain.target)
    }

    @Test func `the last of duplicate keys applies, escaped or not`() throws {
        let job = try read(
            #"{"token":5,"data":[],"priority":3,"\u0074oken":"ab","d\u0061ta":{"a":1},"priority":5,"expiry":1,"\u0065xpiry":2}"#)
        #expect(text(job, try #require(job.tokens.first).digits) == "ab")
        #expect(text(job, job.data) == #"{"a":1}"#)
        #expect(job.priority == 5 && job.expiry == .after(2))
    }

    @Test func `similar keys are ignored`() throws {
        let job = try read(
            #"{"token":"ab","data":{},"Priority":3,"tokem":1,"topik":1,"xxxx":1,"":1,"#
                + #""_gapless_RETRYINg":9,"_gapless_deadlinE":9,"apns-id":4,"identifieR":[],"#
                + #""not_befora":"x","expires_af":0.5,"collapse_iD":0,"push_typE":0,"app ":0,"apq":0}"#
        )
        #expect(job.attempts == 0 && job.deadline == nil && job.priority == 10 && job.identifier == nil)
    }

    @Test(arguments: [
        ("-1", 0), ("0", 0), ("1", 1), ("3", 3), ("4", 3), ("99999999999999999999999", 3), ("-99999999999999999999999", 0),
        ("1.0", 0), ("\"2\"", 0), ("true", 0), ("1e0", 0), ("null", 0),
    ])
    func `a retry marker is clamped to the limit`(marker: String, attempts: Int) throws {
        #expect(try job(with: #""_gapless_RETRYING":\#(marker)"#).attempts == attempts)
    }

    @Test(arguments: ["0", "-7", "9007199254740993", "9223372036854775807", "18446744073709551615", #""""#, #""a\u00e9""#])
    func `an identifier is returned byte for byte`(identifier: String) throws {
        #expect(try job(with: #""identifier":\#(identifier)"#).identifierJSON == Array(identifier.utf8))
    }

    @Test func `tokens have any case, and any length up to the limit`() throws {
        for length in [1, 2, 63, 64, 160, 999, 1000] {
            let digits = String(String(repeating: "0123456789abcdefABCDEF", count: 50).prefix(length))
            #expect(try read(#"{"token":"\#(digits)","data":{}}"#).tokens[0].digits.count == length)
        }
        let long = String(repeating: "a", count: 1001)
        #expect(
            fault { () throws(JobError) in try read(#"{"token":"\#(long)","data":{}}"#) }
                == "token is longer than 1000 digits at byte 9")
    }

    @Test func `a token contains only hex digits`() {
        for byte in UInt8.min...UInt8.max where byte < 0x80 {
            let isDigit = "0123456789abcdefABCDEF <>".utf8.contains(byte)
            var reader = JobReader(retryLimit: 3, appNames: [])
            let bytes = Array(#"{"token":"ab"#.utf8) + [byte] + Array(#"cd","data":{}}"#.utf8)
            #expect(((try? reader.read(bytes)) != nil) == isDigit, "\(byte)")
        }
    }

    @Test func `collapse_id is bounded in bytes, not in characters`() throws {
        #expect(try job(with: #""collapse_id":"\#(String(repeating: "é", count: 32))""#).collapseID?.utf8.count == 64)
        #expect(
            fault { () throws(JobError) in try job(with: #""collapse_id":"\#(String(repeating: "é", count: 32))x""#) }.hasPrefix(
                "collapse_id is 65 bytes long, over the 64"))
        #expect(try job(with: #""collapse_id":"\#(String(repeating: #"\u0041"#, count: 64))""#).collapseID?.utf8.count == 64)
        #expect(
            fault { () throws(JobError) in try job(with: #""topic":"\#(String(repeating: "t", count: 1025))""#) }.hasPrefix(
                "topic is 1025 bytes long, over the 1024"))
    }

    @Test func `the identity of a bad job is read as far as possible`() {
        let bad = JobReader.identity(of: Array(#"{"identifier":"x","token":"no hex"}"#.utf8))
        #expect(bad.identifier == Array(#""x""#.utf8) && bad.token == "no hex")
        let none = JobReader.identity(of: Array(#"{"token":4}"#.utf8))
        #expect(none.identifier == Array("0".utf8) && none.token == nil)
        let worse = JobReader.identity(of: Array(#"{"identifier":1.5}"#.utf8))
        #expect(worse.identifier == nil && worse.token == nil)
        let broken = JobReader.identity(of: Array(#"{"identifier":1"#.utf8))
        #expect(broken.identifier == nil && broken.token == nil)
    }
}

@Suite("The payload of a job")
struct JobPayloadTests {
    @Test(arguments: [
        (#"{"aps":{"content-available":1}}"#, true), (#"{"aps":{"content-available":true}}"#, true),
        (#"{"aps":{"content-available":1},"k":{"alert":1}}"#, true),
        (#"{"k":[],"aps":{"thread-id":"a","content-available":1,"mutable-content":1}}"#, true),
        (#"{"aps":{"content-available":1,"alert":null}}"#, true),
        (#"{"aps":{"content\u002davailable":1}}"#, true), (#"{"\u0061ps":{"content-available":1}}"#, true),
        (#"{"aps":{"alert":"x"},"aps":{"content-available":1}}"#, true),
        (#"{"aps":{"content-available":0,"content-available":1}}"#, true),
        (#"{"aps":{"content-available":1,"alert":"x"}}"#, false), (#"{"aps":{"badge":0,"content-available":1}}"#, false),
        (#"{"aps":{"content-available":1,"sound":""}}"#, false), (#"{"aps":{"content-available":0}}"#, false),
        (#"{"aps":{"content-available":false}}"#, false),
        (#"{"aps":{}}"#, false), (#"{}"#, false), (#"{"content-available":1}"#, false),
        (#"{"aps":{"x":{"content-available":1}}}"#, false),
        (#"{"aps":{"content-available":1},"aps":null}"#, false), (#"{"aps":[{"content-available":1}]}"#, false),
        (#"{"aps":{"content-available":1},"aps":{"content-available":1,"alert":"x"}}"#, false),
    ])
    func `content-available alone is background with priority 5, everything else is alert with 10`(
        data: String, isBackground: Bool
    ) throws {
        let job = try job(withData: data)
        #expect(job.pushType == (isBackground ? "background" : "alert"))
        #expect(job.priority == (isBackground ? 5 : 10))
    }

    @Test func `explicit headers of the job apply`() throws {
        let background = try job(with: #""push_type":"background","priority":1"#)
        #expect(background.pushType == "background" && background.priority == 1)
        let unmarked = try job(with: #""push_type":"background""#)
        #expect(unmarked.priority == 5)
        let alert = try read(#"{"token":"ab","push_type":"alert","data":{"aps":{"content-available":1}}}"#)
        #expect(alert.pushType == "alert" && alert.priority == 10)
        #expect(try job(with: #""push_type":"not-known-yet""#).pushType == "not-known-yet")
    }

    @Test(arguments: [("alert", 4096), ("background", 4096), ("voip", 5120), ("liveactivity", 4096)])
    func `the push type limits the payload`(pushType: String, most: Int) throws {
        func job(_ count: Int) throws(JobError) -> Job {
            let data = #"{"a":"\#(String(repeating: "x", count: count - 8))"}"#
            return try read(#"{"token":"ab","data":\#(data),"push_type":"\#(pushType)"}"#)
        }
        #expect(try job(most).data.count == most)
        #expect(
            fault { () throws(JobError) in try job(most + 1) }
                == "data is \(most + 1) bytes long, over the \(most) of push type \(pushType) at byte 21")
    }

    @Test(arguments: [
        #"{"a":12.50,"b":1.0,"c":1e2,"d":-0,"e":12345678901234567890,"f":"\u00e9\/","a":1}"#, "{ \"é\" :\n[ ] }",
        #"{"x":"\ud800"}"#,
    ])
    func `the payload has the bytes of the producer`(data: String) throws {
        let job = try job(withData: data)
        #expect(text(job, job.data) == data)
    }
}

@Suite("A job for a channel")
struct JobChannelTests {
    @Test(arguments: [
        (#""channel":"AAAA","collapse_id":"x""#, "collapse_id is for tokens, not for a channel"),
        (#""channel":"AAAA","topic":"com.example/x""#, "topic is no bundle id, and a channel belongs to one"),
        (
            #""channel":"AAAA","topic":"com.example.app.voip""#,
            "topic has the suffix of a push type, and a channel belongs to a bundle id"
        ),
        (#""channel":"no base64""#, "channel is not base64"), (#""channel":"""#, "channel is empty"),
        (#""channel":7"#, "channel is not a string"),
        (#""channel":"AAAA","channel_name":"a""#, "channel and channel_name are both given"),
        (#""channel_name":"""#, "channel_name is empty"), (#""channel_name":7"#, "channel_name is not a string"),
        (#""channel_name":"\#(String(repeating: "x", count: 65))""#, "channel_name is 65 bytes long, over the 64"),
        (#""channel_name":"a","collapse_id":"x""#, "collapse_id is for tokens, not for a channel"),
    ])
    func `that is invalid is an error, and beside a token the channel is ignored`(members: String, expected: String) throws {
        #expect(fault { () throws(JobError) in try read(#"{\#(members),"data":{}}"#) }.contains(expected))
        for target in [#""token":"ab""#, #""tokens":["ab"]"#] {
            let beside = try read(#"{\#(target),\#(members),"data":{}}"#)
            #expect(beside.tokens.count == 1 && beside.tokens[0].fault == nil)
        }
    }

    @Test func `has at most 5,120 bytes of payload`() throws {
        func job(_ count: Int) throws(JobError) -> Job {
            try read(#"{"channel":"AAAA","data":{"a":"\#(String(repeating: "x", count: count - 8))"}}"#)
        }
        #expect(try job(5120).data.count == 5120)
        #expect(fault { () throws(JobError) in try job(5121) }.hasPrefix("data is 5121 bytes long, over the 5120 "))
    }
}

@Suite("The deadline of a job")
struct JobDeadlineTests {
    @Test func `a relative expiry counts from the first send, and a mark preserves it`() throws {
        #expect(try read(sample).expiration(now: 1000) == 8200)
        #expect(try job(with: #""expiry":60"#).expiration(now: 1000) == 1060)
        let marked = try job(with: #""expiry":60,"_gapless_deadline":1060"#)
        #expect(marked.expiration(now: 1050) == 1060 && !marked.isExpired(now: 1060) && marked.isExpired(now: 1061))
        for mark in ["-1", "0", "-0", "1.5", "true"] {
            let unmarked = try job(with: #""expiry":60,"_gapless_deadline":"# + mark)
            #expect(unmarked.expiration(now: 1050) == 1110 && !unmarked.isExpired(now: 1061), "\(mark)")
        }
    }

    @Test func `an expiry of zero means one attempt, and never expires by itself`() throws {
        let once = try job(with: #""expiry":0"#)
        #expect(once.expiration(now: 1000) == 0 && !once.isExpired(now: .max))
        let marked = try job(with: #""expiry":0,"_gapless_deadline":5"#)
        #expect(marked.expiration(now: 1) == 0 && marked.isExpired(now: 6))
    }

    @Test func `expires_at is absolute and takes precedence`() throws {
        let job = try job(with: #""expiry":60,"expires_at":500,"_gapless_deadline":900"#)
        #expect(job.expiration(now: 100) == 500 && !job.isExpired(now: 500) && job.isExpired(now: 501))
    }

    @Test func `the largest numbers do not trap`() throws {
        #expect(try job(with: #""expiry":9223372036854775807"#).expiration(now: 1_763_764_201) == .max)
        #expect(try job(with: #""expires_at":-9223372036854775808"#).isExpired(now: 0))
        #expect(try job(with: #""_gapless_deadline":18446744073709551616"#).deadline == nil)
        #expect(try job(with: #""_gapless_deadline":"5""#).deadline == nil)
    }
}

@Suite("A job for many devices")
struct JobTokensTests {
    @Test func `each token is validated separately`() throws {
        let long = String(repeating: "a", count: 1001)
        let job = try read(#"{"tokens":["ab", 5,"","xy",null,["cd"],"\u0061b","\#(long)", "CD" ],"data":{}}"#)
        #expect(job.tokens.map(\.fault) == [nil, .notString, .empty, .notHex, .notString, .notString, nil, .tooLong, nil])
        #expect(text(job, job.tokens[8].digits) == "CD")
        #expect(job.text(of: job.tokens[1]) == "5" && job.text(of: job.tokens[3]) == "xy")
        #expect(job.tokens[3].fault?.description == "token is not hex")
    }

    @Test func `a job has at most a hundred thousand tokens`() throws {
        let most = Array(repeating: "\"ab\"", count: JobReader.mostTokens).joined(separator: ",")
        #expect(try read(#"{"tokens":[\#(most)],"data":{}}"#).tokens.count == 100_000)
        #expect(
            fault { () throws(JobError) in try read(#"{"tokens":["cd",\#(most)],"data":{}}"#) }
                == "tokens holds 100001 tokens, over the 100000 that are allowed at byte 10")
    }
}

@Suite("Hex digits")
struct JobHexTests {
    @Test func `every byte at every place is judged alike`() {
        let digits = Array("0123456789abcdefABCDEF".utf8)
        let limits = Array("/09:@AFG`afg".utf8) + [0x10, 0x80, 0xB0, 0xC1, 0xE1]
        for byte in UInt8.min...UInt8.max {
            #expect(isHex(byte) == digits.contains(byte))
            for count in limits.contains(byte) ? 1..<40 : 20..<21 {
                let plain = (0..<count).map { digits[$0 % digits.count] }
                for place in 0..<count {
                    var text = plain
                    text[place] = byte
                    if areHex(text.span) != digits.contains(byte) { Issue.record("byte \(byte) at \(place) of \(count)") }
                }
            }
        }
    }
}
