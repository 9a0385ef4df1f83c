import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("A job that cannot be pushed becomes a dead letter byte for byte", .blocking)
struct DaemonBadJobTests {
    private static let token = deviceToken(7)

    /// Jobs and their faults.
    static let structures: [(String, String)] = [
        (#"{"data":{}}"#, "token is missing"),
        (#"{"token":"ab"}"#, "data is missing"),
        (#"{"token":12345,"data":{}}"#, "token is not a string at byte 9"),
        (#"{"token":"abxd","data":{}}"#, "token is not hex at byte 12"),
        (#"{"token":"","data":{}}"#, "token is empty at byte 9"),
        (#"{"token":"../../etc/passwd","data":{}}"#, "token is not hex at byte 10"),
        (#"{"token":"ab","data":[]}"#, "data is not an object at byte 21"),
        (#"{"token":"ab","data":null}"#, "data is missing"),
        (#"{"token":"ab","tokens":["ab"],"data":{}}"#, "token and tokens are both given at byte 23"),
        (#"{"tokens":[],"data":{}}"#, "tokens is empty at byte 10"),
        (#"{"token":"ab","data":{},"priority":7}"#, "priority is not 1, 5 or 10 at byte 35"),
        (#"{"token":"ab","data":{},"expiry":-1}"#, "expiry is negative at byte 33"),
        (#"{"token":"ab","data":{},"expiry":"60"}"#, "expiry is not a number at byte 33"),
        (#"{"token":"ab","data":{},"topic":"a\nb"}"#, "topic has a control character at byte 32"),
        (#"{"token":"ab","data":{},"apns_id":"no uuid"}"#, "apns_id is not a UUID at byte 34"),
        (#"{"token":"ab","data":{},"identifier":99999999999999999999999}"#, "identifier is beyond 64 bits at byte 37"),
        (#"{"token":"ab","data":{},"identifier":[1]}"#, "identifier is neither an integer nor a string at byte 37"),
        (#"{"token":"ab","data":{},"app":"absent"}"#, #"app "absent" is unknown at byte 30"#),
        (#"{"token":"ab","data":{},"not_before":"soon"}"#, "not_before is not a number at byte 37"),
        (
            #"{"token":"ab","data":{"a":"\#(String(repeating: "y", count: 4096))"}}"#,
            "data is 4104 bytes long, over the 4096 of push type alert at byte 21"
        ),
        (
            #"{"token":"ab","data":{},"collapse_id":"\#(String(repeating: "c", count: 65))"}"#,
            "collapse_id is 65 bytes long, over the 64 that are allowed at byte 38"
        ),
    ]

    @Test func `the log names each fault, and the other jobs are delivered`() throws {
        let stage = try Stage()
        for (number, (job, _)) in Self.structures.enumerated() {
            try stage.push([job, pushJob(deviceToken(number))])
        }
        let daemon = try stage.start()
        #expect(try stage.settles(Self.structures.count))
        let letters = try stage.deadLetters()
        #expect(letters.map { $0.text("job") } == Self.structures.map(\.0))
        #expect(letters.map { $0.text("reason") } == Self.structures.map { "Parsing apns structure error: \($0.1)" })
        #expect(letters.allSatisfy { $0["status"] == .null && $0.number("attempts") == 0 })
        let lines = daemon.complaints.filter { $0.contains("Parsing apns structure error (") }
        #expect(lines.count == Self.structures.count)
        for (line, (job, why)) in zip(lines, Self.structures) where job.utf8.count < 4000 {
            #expect(line == "[Gapless E] STAMP Parsing apns structure error (\(job)): \(why).")
        }
        #expect(try stage.counter(.dead) == Self.structures.count)
        #expect(try stage.status().feedback == 0)
    }

    @Test func `the log names the byte at which a job stops to be JSON`() throws {
        let stage = try Stage()
        let bad: [(String, String)] = [
            (#"{"token" "ab"}"#, "expected ':' at byte 9"),
            (#"{"token":"ab" "data":{}}"#, "expected ',' at byte 14"),
            ("", "at byte 0"), ("not JSON", "at byte 0"), ("[1,2,3]", "at byte 0"), (#"{"a":1} x"#, "at byte 8"),
            (#"{"token":"ab","data":{},}"#, "at byte 24"), (#"{"a":01}"#, "at byte"), ("\u{FEFF}{}", "at byte 0"),
        ]
        try stage.push(bad.map(\.0))
        let daemon = try stage.start()
        try stage.push(pushJob(Self.token))
        #expect(try stage.settles(1))
        #expect(try stage.deadLetters().map { $0.text("job") } == bad.map(\.0))
        let lines = daemon.complaints.filter { $0.contains("Json unmarshal error (") }
        #expect(lines.count == bad.count)
        for (line, (job, why)) in zip(lines, bad) {
            #expect(line.hasPrefix("[Gapless E] STAMP Json unmarshal error (\(job)): "), "\(line)")
            #expect(line.contains(why), "\(line)")
        }
    }

    @Test func `hostile bytes are in the dead letters byte for byte`() throws {
        let stage = try Stage()
        let head = Array(#"{"token":"ab","data":{"aps":{"alert":""#.utf8)
        let tail = Array(#""}}}"#.utf8)
        let hostile: [[UInt8]] = [
            Array(repeating: UInt8(ascii: "["), count: 100_000),
            Array(String(repeating: #"{"a":"#, count: 100_000).utf8),
            Array(#"{"token":"ab","data":"#.utf8) + Array(repeating: UInt8(ascii: "["), count: 100_000),
            head + Array(repeating: UInt8(ascii: "x"), count: 20_000_000) + tail,
            head + [0] + tail, head + [0xC3, 0x28] + tail, head + [0xED, 0xA0, 0x80] + tail, head + [0xFF] + tail,
            (0..<300).map { UInt8($0 % 256) },
            Array("{\n\t\"token\": \"zz\",\n\t\"data\": {\n\t\t\"aps\": {\n\t\t\t\"alert\": \"hi\"\n\t\t}\n\t}\n}".utf8),
        ]
        for job in hostile { try stage.push(bytes: job) }
        try stage.push(pushJob(Self.token))
        let daemon = try stage.start()
        // The daemon validates 20 MB before the good job, which takes long under a sanitizer.
        #expect(stage.accepts(1, atMost: .seconds(120)))
        #expect(try stage.drains())
        let letters = try stage.deadLetters()
        try #require(letters.count == hostile.count)
        for (letter, job) in zip(letters, hostile) {
            // Base64 is only for bytes that are not UTF-8.
            if let text = String(validating: job, as: UTF8.self) {
                #expect(letter.text("job") == text && letter["job_base64"] == nil, "\(letter.text("reason") ?? "")")
            } else {
                let bytes = letter.text("job_base64").flatMap { Base64.decode(Array($0.utf8)) }
                #expect(bytes == job && letter["job"] == nil, "\(letter.text("reason") ?? "")")
            }
        }
        #expect(daemon.standardError.utf8.count < 1_000_000, "the log is truncated")
    }

    @Test func `a token with escapes is pushed and reported by its text`() throws {
        let (stage, daemon) = try givenOpen(["redis_results_key": "\"results\"", "retry_delays": "[0.2]"])
        stage.simulator.plan(token: "abc1", answers: [.usual(410)])
        stage.simulator.plan(token: "abc2", answers: [.usual(429)])
        let dead = #"{"token":"\u0061bc1","data":{"aps":{}}}"#
        try stage.push([dead, #"{"token":"\u0061bc2","identifier":2,"data":{"a":1}}"#])
        #expect(daemon.says("(ID 2): 429 TooManyRequests. Retrying count (1)."))
        // Newer jobs of the device wait behind it, in any spelling; each of `tokens` is a separate job.
        try stage.push([
            #"{"token":"ab\u00632","identifier":3,"data":{"a":2}}"#, #"{"tokens":["\u0061bc3","ab\u0063\u002f"],"data":{"a":3}}"#,
        ])
        #expect(try stage.settles(4))
        #expect(
            stage.simulator.ledger.requests(for: "abc2").map(\.body)
                == [#"{"a":1}"#, #"{"a":1}"#, #"{"a":2}"#].map { Array($0.utf8) })
        #expect(stage.simulator.ledger.requests(for: "abc3").map(\.body) == [Array(#"{"a":3}"#.utf8)])
        let letters = try stage.deadLetters()
        #expect(Set(letters.map { $0.text("token") }) == ["abc1", "abc/"])
        #expect(letters.compactMap { $0.text("job") }.contains(dead))
        #expect(try stage.feedback().map { $0.text("token") } == ["abc1"])
        let results = Set(try stage.results().compactMap { $0["token"] }.filter { $0.hasPrefix("abc") })
        #expect(results == ["abc1", "abc2", "abc3", "abc/"])
    }
}
