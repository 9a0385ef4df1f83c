import JSONBytes
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

private func string(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

@Suite("The records of a job's end")
struct JobRecordsTests {
    private var letter = DeadLetter(
        reason: "Unregistered", status: 410, apnsID: "0a1b2c3d-0000-1111-2222-333344445555", identifier: Array("154".utf8),
        token: "071c",
        attempts: 1, at: 1_795_218_609, worker: "host:1", job: Array("{\"token\":\"071c\",\n\"data\":{\"é\":\"\\u00e9\"}}".utf8))

    @Test func `a dead letter contains the job as a string`() {
        #expect(
            string(letter.record()) == #"""
                {"reason": "Unregistered", "status": 410, "apns_id": "0a1b2c3d-0000-1111-2222-333344445555", "identifier": 154, \#
                "token": "071c", "attempts": 1, "at": 1795218609, "worker": "host:1", \#
                "job": "{\"token\":\"071c\",\n\"data\":{\"é\":\"\\u00e9\"}}"}
                """#)
    }

    @Test func `a dead letter contains the trace of its job, and omits an absent one`() {
        var traced = letter
        traced.trace = "a\"b\u{1}"
        #expect(string(traced.record()).contains(#""token": "071c", "trace": "a\"b\u0001", "attempts": 1"#))
        #expect(DeadLetter(record: traced.record()) == traced)
        #expect(JobReader.identity(of: Array(#"{"trace":"t"}"#.utf8)).trace == "t")
        #expect(JobReader.identity(of: Array(#"{"trace":7}"#.utf8)).trace == nil)
    }

    @Test func `records contain the campaign of their job, and omit an absent one`() {
        var named = letter
        named.campaign = "spring \"sale\""
        #expect(string(named.record()).contains(#""token": "071c", "campaign": "spring \"sale\"", "attempts": 1"#))
        #expect(DeadLetter(record: named.record()) == named)
        #expect(JobReader.identity(of: Array(#"{"campaign":"c"}"#.utf8)).campaign == "c")
        #expect(JobReader.identity(of: Array(#"{"campaign":""}"#.utf8)).campaign == nil)
        let feedback = FeedbackRecord(token: "071c", reason: "Unregistered", status: 410, verdict: .dead, campaign: "c")
        #expect(string(feedback.record()).hasSuffix(#""verdict": "dead", "campaign": "c"}"#))
        let result = ResultEntry(token: "071c", status: 200, attempts: 1, at: 7, campaign: "c")
        #expect(result.fields().texts.suffix(2).map(string) == ["campaign", "c"])
    }

    @Test(arguments: [("x", 1000), ("é", 500), ("\\n", 1000), ("\\u00e9", 500)])
    func `a long identifier is cut in records and log lines`(character: String, kept: Int) throws {
        func identifier(_ count: Int) throws -> [UInt8] {
            var reader = JobReader(retryLimit: 3, appNames: [])
            let text = String(repeating: character, count: count)
            let bytes = Array(#"{"token":"ab","data":{},"identifier":"\#(text)"}"#.utf8)
            let json = try reader.read(bytes).identifierJSON
            #expect(JobReader.identity(of: bytes).identifier == json)
            return json
        }
        let whole = try identifier(kept)
        #expect(string(whole) == "\"\(String(repeating: character, count: kept))\"")
        let cut = try JSONValue.parse(identifier(100_000)).stringValue
        #expect(cut?.count == kept + 1 && cut?.hasSuffix("…") == true)
    }

    @Test func `a job that is not UTF-8 is stored in Base64`() {
        let letter = DeadLetter(
            reason: "expected valid UTF-8 at byte 2", attempts: 0, at: 5, worker: "w", job: [0x7B, 0x22, 0xFF])
        #expect(
            string(letter.record()) == #"""
                {"reason": "expected valid UTF-8 at byte 2", "status": null, "apns_id": null, "identifier": null, \#
                "token": null, "attempts": 0, "at": 5, "worker": "w", "job_base64": "eyL/"}
                """#)
    }

    @Test func `a text of control characters that Base64 makes shorter is stored in Base64`() {
        var letter = letter
        letter.job = [UInt8](repeating: 0x01, count: 100_000)
        #expect(letter.record().count < 140_000)
        #expect(DeadLetter(record: letter.record()) == letter)
    }

    @Test(arguments: [
        "{\n  \"token\": \"zz\",\n  \"data\": {\n    \"aps\": {\n      \"alert\": \"hi\"\n    }\n  }\n}",
        "{\r\n\t\"token\": \"zz\",\r\n\t\"data\": {\r\n\t\t\"aps\": {\r\n\t\t\t\"alert\": \"hi\"\r\n\t\t}\r\n\t}\r\n}",
        #"{"a":"b","c":"d","e":"\\\\\\"}"#, "{" + String(repeating: "\n", count: 100_000) + "}",
        "{\"token\":\"\u{0}\u{1F}\"}", String(repeating: "\u{1}", count: DeadLetter.mostEscapedBytes),
    ])
    func `a job that is UTF-8 is stored as text, however it is indented`(job: String) throws {
        var letter = letter
        letter.job = Array(job.utf8)
        #expect(try JSONValue.parse(letter.record())["job"]?.stringValue == job)
        #expect(DeadLetter(record: letter.record()) == letter)
    }

    @Test func `the record of a large job contains its beginning, and its place`() throws {
        var letter = letter
        letter.job = [UInt8](repeating: UInt8(ascii: "x"), count: DeadLetter.mostJobBytes)
        #expect(letter.effect(of: ClaimID(17), isExpired: false) == .deadLetter(record: letter.record(), isExpired: false))
        letter.job.append(UInt8(ascii: "x"))
        guard case .deadLetter(let record, true, "host:1:17") = letter.effect(of: ClaimID(17), isExpired: true) else {
            Issue.record("not stored apart")
            return
        }
        let read = try #require(DeadLetter(record: record))
        #expect(read.job == Array(letter.job[..<DeadLetter.headBytes]))
        #expect(read.fullSize == letter.job.count)
        #expect(read.field == "host:1:17")
    }

    @Test func `a dead letter reads back as it was, whatever the bytes of its job`() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("JobRecordsTests seed \(seed)")
        var state = seed
        for length in 0..<300 {
            var copy = letter
            copy.job = (0..<length).map { _ in
                state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
                return UInt8(truncatingIfNeeded: state >> 40) & (length.isMultiple(of: 2) ? 0x7F : 0xFF)
            }
            copy.reason = "a \"reason\"\n\u{1}é"
            copy.identifier = length.isMultiple(of: 3) ? nil : Array(#""\u0041""#.utf8)
            copy.status = length.isMultiple(of: 5) ? nil : 400
            let record = copy.record()
            #expect(throws: Never.self, "seed \(seed), length \(length)") { try JSONValue.parse(record) }
            #expect(DeadLetter(record: record) == copy, "seed \(seed), length \(length)")
        }
    }

    @Test func `a record of another program is read as far as possible`() {
        #expect(
            DeadLetter(record: Array(#"{"job":"x","status":"410","extra":{}}"#.utf8))
                == DeadLetter(reason: "", attempts: 0, at: 0, worker: nil, job: Array("x".utf8)))
        for bad in ["", "[]", "{}", #"{"job":5}"#, #"{"job_base64":"@"}"#, #"{"job":"x""#] {
            #expect(DeadLetter(record: Array(bad.utf8)) == nil)
        }
    }

    @Test func `a feedback record contains the response of APNs and a verdict`() {
        let dead = FeedbackRecord(
            token: "071c", topic: "com.example", reason: "Unregistered", status: 410, timestamp: 1_795_218_609_123,
            identifier: Array(#""a""#.utf8), verdict: .dead)
        #expect(
            string(dead.record()) == #"""
                {"token": "071c", "topic": "com.example", "reason": "Unregistered", "status": 410, \#
                "timestamp": 1795218609123, "identifier": "a", "verdict": "dead"}
                """#)
        let suspect = FeedbackRecord(token: "071c", reason: "BadDeviceToken", status: 400, verdict: .suspect)
        #expect(
            string(suspect.record()) == #"""
                {"token": "071c", "topic": null, "reason": "BadDeviceToken", "status": 400, \#
                "timestamp": null, "identifier": null, "verdict": "suspect"}
                """#)
    }

    @Test func `a result is a flat list of fields and values`() {
        let good = ResultEntry(
            identifier: Array("154".utf8), token: "071c", status: 410, apnsID: "id", attempts: 2, at: 7, app: "beta", topic: "t",
            pushType: "alert", timestamp: 9, trace: "tr", worker: "w", claimedAt: 1, sentAt: 2, respondedAt: 3)
        #expect(
            good.fields().texts.map(string) == [
                "identifier", "154", "token", "071c", "status", "410", "reason", "", "apns_id", "id", "attempts", "2", "at", "7",
                "app", "beta", "topic", "t", "push_type", "alert", "channel", "", "timestamp", "9", "trace", "tr", "worker", "w",
                "claimed_at", "1", "sent_at", "2", "responded_at", "3",
            ])
        let bad = ResultEntry(identifier: Array(#""a\u0062""#.utf8), reason: "Expired", attempts: 0, at: 7)
        #expect(
            bad.fields().texts.map(string) == [
                "identifier", "ab", "token", "", "status", "", "reason", "Expired", "apns_id", "", "attempts", "0", "at", "7",
                "app", "", "topic", "", "push_type", "", "channel", "", "timestamp", "", "trace", "", "worker", "",
                "claimed_at", "", "sent_at", "", "responded_at", "",
            ])
    }
}
