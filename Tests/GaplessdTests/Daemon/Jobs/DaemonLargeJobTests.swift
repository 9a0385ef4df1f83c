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
        #expect(daemon.stop()?.status == 0)
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
