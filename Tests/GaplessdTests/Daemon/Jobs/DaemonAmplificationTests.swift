import APNSSimulator
import Harness
import RedisQueue
import Testing

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
        let job = Self.job { $0 % 125 == 0 ? deviceToken($0) : "bad \(deviceToken($0))" }
        try measure("bad tokens", job, stage, daemon) {
            let status = try stage.status()
            return status.isDrained && status.dead > 0 && stage.simulator.totals.accepted == 41
        }
        let bad = (0..<5000).filter { $0 % 125 != 0 }.map { "\"bad \(deviceToken($0))\"" }.joined(separator: ",")
        let letters = try stage.deadLetters()
        #expect(letters.map { $0.text("job") } == [#"{"tokens":[\#(bad)],"data":\#(Self.payload)}"#])
        let reason = "Parsing apns structure error: 4960 tokens are invalid; first fault: token is not hex at byte 15"
        #expect(letters.map { $0.text("reason") } == [reason])
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
