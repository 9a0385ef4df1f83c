import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("A large job is delivered, cut or dead-lettered, and the jobs behind it are delivered", .blocking)
struct DaemonLargeJobTests {
    @Test func `however large it is`() throws {
        let (tokens, bulk) = ((0..<250).map { "\"\(deviceToken($0))\"" }, String(repeating: "x", count: ClaimedJob.mostBytes))
        func single(_ number: Int, bulk: some StringProtocol) -> [UInt8] {
            Array(#"{"token":"\#(deviceToken(number))","bulk":"\#(bulk)","data":{"aps":{}}}"#.utf8)
        }
        // Its parts leave out bulky unknown keys.
        let cut = #"{"tokens":[\#(tokens.joined(separator: ","))],"bulk":"\#(bulk.prefix(5_000_000))","data":{"aps":{}}}"#
        let (controls, tooLarge) = ([UInt8](repeating: 0x01, count: 3 << 20), single(2001, bulk: bulk))
        let stage = try Stage()
        for job in [Array(cut.utf8), single(1000, bulk: bulk.prefix(12 << 20)), controls, tooLarge] { try stage.push(bytes: job) }
        try stage.push(pushJob(deviceToken(1001)))
        let daemon = try stage.start()
        #expect(try stage.settles(252), "\(daemon.standardError.suffix(2000))")
        #expect(try stage.status().unexplained == 0)
        #expect(try Set(stage.deadLetterJobs()) == [controls, tooLarge])
        let letters = try stage.deadLetters().sorted { ($0.text("reason") ?? "") < ($1.text("reason") ?? "") }
        #expect(letters[0].text("reason") == "JobTooLarge" && letters[0].number("job_bytes") == Int64(tooLarge.count))
        #expect(letters[0].text("job_head") == String(decoding: tooLarge.prefix(1024), as: UTF8.self))
        #expect(letters[1].text("reason")?.hasPrefix("Json unmarshal error") == true && letters[1].text("job_base64") != nil)
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
    /// The bytes of everything in Redis, buffers of connections included.
    private func memory(_ stage: Stage) throws -> Int {
        let lines = try stage.command("INFO", "memory").text?.split(whereSeparator: \.isNewline) ?? []
        return try #require(lines.first { $0.hasPrefix("used_memory:") }?.split(separator: ":").last.flatMap { Int($0) })
    }

    @Test func `a job with many bad tokens becomes one dead letter, which can be requeued`() throws {
        let (stage, daemon) = try givenOpen()
        let tail = #"],"data":{"aps":{"alert":"\#(String(repeating: "x", count: 4000))"}}}"#
        let tokens = (0..<5000).map { $0 % 125 == 0 ? "\"\(deviceToken($0))\"" : "\"bad-\(deviceToken($0))\"" }
        let job = #"{"tokens":["# + tokens.joined(separator: ",") + tail
        let (before, said) = (try memory(stage), daemon.standardError.utf8.count)
        var most = 0
        try stage.push(job)
        let isEnded = try waitUntil(atMost: .seconds(60)) {
            most = max(most, try memory(stage))
            let status = try stage.status()
            return status.isDrained && status.dead > 0 && stage.simulator.totals.accepted == 41
        }
        #expect(isEnded)
        most = max(most, try memory(stage))
        let log = daemon.standardError.utf8.count - said
        #expect(most - before < 10 * job.utf8.count, "Redis +\(most - before) for \(job.utf8.count) bytes")
        #expect(log < 10 * job.utf8.count, "log +\(log) for \(job.utf8.count) bytes")
        let bad = tokens.filter { $0.hasPrefix("\"bad") }.joined(separator: ",")
        let letters = try stage.deadLetters()
        #expect(letters.map { $0.text("job") } == [#"{"tokens":["# + bad + tail])
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
