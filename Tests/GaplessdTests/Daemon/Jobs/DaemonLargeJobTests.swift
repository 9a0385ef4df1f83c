import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("A large job is delivered, cut or dead-lettered, and the jobs behind it are delivered", .blocking)
struct DaemonLargeJobTests {
    private func settle(_ stage: Stage, _ job: [UInt8], accepts count: Int) throws {
        try stage.push(bytes: job)
        try stage.push([pushJob(deviceToken(9999))])
        let daemon = try stage.start()
        #expect(try stage.settles(count + 1), "\(daemon.standardError.suffix(2000))")
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `the parts of a job with many tokens leave out bulky unknown keys`() throws {
        let stage = try Stage()
        let tokens = (0..<250).map { "\"\(deviceToken($0))\"" }.joined(separator: ",")
        let bulk = String(repeating: "x", count: 5_000_000)
        let job = #"{"tokens":[\#(tokens)],"bulk":"\#(bulk)","data":{"aps":{"alert":"x"}},"identifier":7}"#
        try settle(stage, Array(job.utf8), accepts: 250)
        #expect(try stage.status().dead == 0)
    }

    @Test func `a job for one device is delivered with unknown keys of megabytes`() throws {
        let stage = try Stage()
        let job = #"{"token":"\#(deviceToken(1))","bulk":"\#(String(repeating: "x", count: 12 << 20))","data":{"aps":{}}}"#
        try settle(stage, Array(job.utf8), accepts: 1)
    }

    @Test func `a job of control characters becomes Base64 in its dead letter`() throws {
        let stage = try Stage()
        let job = [UInt8](repeating: 0x01, count: 3 << 20)
        try settle(stage, job, accepts: 0)
        let letter = try #require(try stage.deadLetters().first)
        #expect(letter.text("reason")?.hasPrefix("Json unmarshal error") == true)
        #expect(letter.text("job_base64") != nil)
        #expect(try stage.deadLetterJobs() == [job])
    }

    @Test func `a job that is too large to be transmitted becomes a dead letter in Redis`() throws {
        let stage = try Stage()
        let bulk = String(repeating: "x", count: ClaimedJob.mostBytes)
        let job = Array(#"{"token":"\#(deviceToken(1))","bulk":"\#(bulk)","data":{"aps":{}}}"#.utf8)
        try settle(stage, job, accepts: 0)
        let letter = try #require(try stage.deadLetters().first)
        #expect(letter.text("reason") == "JobTooLarge")
        #expect(letter.number("job_bytes") == Int64(job.count))
        #expect(letter.text("job_head") == String(decoding: job.prefix(1024), as: UTF8.self))
        #expect(try stage.deadLetterJobs() == [job])
    }

    @Test func `with at_most_once a large job becomes a dead letter too`() throws {
        let stage = try Stage()
        let job = [UInt8](repeating: 0x01, count: ClaimedJob.mostBytes + 1)
        try stage.push(bytes: job)
        let daemon = try stage.start(["redis_delivery": #""at_most_once""#])
        #expect(try waitUntil { try stage.status().dead == 1 }, "\(daemon.standardError.suffix(2000))")
        #expect(try stage.deadLetterJobs() == [job])
    }
}

@Suite("Redis and the log need at most ten times the bytes of a job for many devices", .blocking)
struct DaemonAmplificationTests {
    private static let payload = #"{"aps":{"alert":"\#(String(repeating: "x", count: 4000))"}}"#

    /// 5,000 tokens and a payload of 4 KB.
    private static func job(_ members: String = "", token: (Int) -> String = { deviceToken($0) }) -> String {
        let tokens = (0..<5000).map { "\"\(token($0))\"" }.joined(separator: ",")
        return #"{"tokens":[\#(tokens)],\#(members)"data":\#(payload)}"#
    }

    /// An app whose server does not exist, beside that of the top level.
    private static let away = """
        {"away": {"apns_server": "localhost:1", "apns_topic": "com.example.away", "apns_team_id": "SIMTEAM001",
                  "apns_auth_key_path": "credentials/AuthKey_SIMKEY0001.p8", "apns_auth_key_id": "SIMKEY0001"}}
        """

    /// The bytes of everything in Redis, buffers of connections included.
    private func memory(_ stage: Stage) throws -> Int {
        let lines = try stage.command("INFO", "memory").text?.split(whereSeparator: \.isNewline) ?? []
        return try #require(lines.first { $0.hasPrefix("used_memory:") }?.split(separator: ":").last.flatMap { Int($0) })
    }

    /// Pushes the job, waits until its end, and compares the growth of Redis and of the log with its bytes.
    private func measure(
        _ name: String, _ job: String, _ stage: Stage, _ daemon: DaemonProcess, until isOver: () throws -> Bool
    ) throws {
        let (before, said) = (try memory(stage), daemon.standardError.utf8.count)
        var most = 0
        try stage.push(job)
        let isEnded = try waitUntil(atMost: .seconds(60)) {
            most = max(most, try memory(stage))
            return try isOver()
        }
        #expect(isEnded)
        most = max(most, try memory(stage))
        let log = daemon.standardError.utf8.count - said
        print("DaemonAmplificationTests: \(name), job of \(job.utf8.count), Redis +\(most - before), log +\(log)")
        #expect(most - before < 10 * job.utf8.count, "Redis +\(most - before) for \(job.utf8.count) bytes")
        #expect(log < 10 * job.utf8.count, "log +\(log) for \(job.utf8.count) bytes")
    }

    @Test func `a job with many bad tokens becomes one dead letter, which can be requeued`() throws {
        let (stage, daemon) = try givenOpen()
        let job = Self.job { $0 % 125 == 0 ? deviceToken($0) : "bad-\(deviceToken($0))" }
        try measure("bad tokens", job, stage, daemon) {
            let status = try stage.status()
            return status.isDrained && status.dead > 0 && stage.simulator.totals.accepted == 41
        }
        let bad = (0..<5000).filter { $0 % 125 != 0 }.map { "\"bad-\(deviceToken($0))\"" }.joined(separator: ",")
        let letters = try stage.deadLetters()
        #expect(letters.map { $0.text("job") } == [#"{"tokens":[\#(bad)],"data":\#(Self.payload)}"#])
        let reason = "Parsing apns structure error: 4960 tokens are invalid; first fault: token is not hex at byte 15"
        #expect(letters.count == 1 && letters[0].text("reason")?.hasPrefix(reason) == true)
        #expect(daemon.complaints.count { $0.contains("Parsing apns structure error") } == 1)
        #expect(try Call(["dead", stage.write(), "requeue"]).status == 0)
        #expect(try waitUntil { try stage.counter(.dead) == 2 })
        #expect(try stage.deadLetters().map { $0.text("job") } == letters.map { $0.text("job") })
        #expect(try stage.drains())
        #expect(try stage.status().unexplained == 0)
        #expect(daemon.stop()?.status == 0)
        #expect(try Call(["audit", stage.write()]).status == 0)
    }
}
