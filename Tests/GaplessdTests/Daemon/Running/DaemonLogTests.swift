import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("The log of a daemon", .blocking)
struct DaemonLogTests {
    private static let spread =
        "{ \"token\" : \"0a\",\n  \"identifier\":154,\r\n\t\"data\":{\"aps\":{\"alert\":\"caf\u{E9} \\n\"}} }"
    private static let onOneLine =
        "{ \"token\" : \"0a\",   \"identifier\":154,  \t\"data\":{\"aps\":{\"alert\":\"caf\u{E9} \\n\"}} }"

    /// Runs a delivered, a retried and a dead push, a text that is not JSON, and an invalid job.
    private func run(_ stage: Stage, _ settings: [String: String?]) throws -> DaemonProcess {
        stage.simulator.plan(token: deviceToken(2), answers: [.usual(503)])
        stage.simulator.plan(token: deviceToken(3), answers: [.usual(410)])
        let daemon = try stage.start(settings)
        try stage.push([
            Self.spread, pushJob(deviceToken(2), #""identifier":"two""#), pushJob(deviceToken(3)), #"{"token" 1}"#,
            #"{"token":"ab"}"#,
        ])
        #expect(try stage.settles(2))
        #expect(try stage.status().dead == 3)
        #expect(daemon.stop()?.status == 0)
        return daemon
    }

    @Test func `five kinds of lines, each on its stream`() throws {
        let stage = try Stage()
        let daemon = try run(stage, ["log_successes": "true"])
        let sent = daemon.reports.filter { $0.contains("Sent: ") }
        #expect(sent.contains("[Gapless I] STAMP Sent: \(Self.onOneLine)."))
        #expect(sent.count == 2)
        #expect(daemon.reports.allSatisfy { $0.hasPrefix("[Gapless I] STAMP ") })
        let complaints = daemon.complaints
        #expect(complaints.allSatisfy { $0.hasPrefix("[Gapless W] STAMP ") || $0.hasPrefix("[Gapless E] STAMP ") })
        #expect(
            complaints.contains(#"[Gapless W] STAMP SendPayload Error (ID "two"): 503 ServiceUnavailable. Retrying count (1)."#))
        #expect(
            complaints.contains(
                "[Gapless E] STAMP Final SendPayload Error (ID 0): 410 Unregistered | \(pushJob(deviceToken(3)))."))
        #expect(complaints.contains(#"[Gapless E] STAMP Json unmarshal error ({"token" 1}): expected ':' at byte 9."#))
        #expect(complaints.contains(#"[Gapless E] STAMP Parsing apns structure error ({"token":"ab"}): data is missing."#))
        // Local time, to the second.
        let stamp = try #require(daemon.standardOutput.split(separator: " ").dropFirst(2).first)
        #expect(stamp.wholeMatch(of: #/\d{4}/\d\d/\d\d/#) != nil)
    }

    @Test func `log_redact keeps 8 digits of a token and no data`() throws {
        let stage = try Stage()
        let daemon = try run(stage, ["log_successes": "true", "log_redact": "true"])
        let all = daemon.standardOutput + daemon.standardError
        #expect(!all.contains(deviceToken(2)))
        #expect(!all.contains(deviceToken(3)))
        #expect(!all.contains("alert"))
        #expect(!all.contains("caf"))
        #expect(daemon.reports.contains { $0.contains("Sent: ") && $0.contains(#""token":"abababab""#) })
        #expect(daemon.complaints.contains { $0.contains("410 Unregistered | {") && $0.contains(#""abababab""#) })
        #expect(try stage.deadLetters().contains { $0.text("job") == pushJob(deviceToken(3)) }, "Redis keeps the complete job")
    }

    @Test func `log_format json writes one object per line`() throws {
        let daemon = try run(Stage(), ["log_successes": "true", "log_format": "\"json\""])
        var pushes: Set<String> = []
        for (text, levels) in [(daemon.standardOutput, ["info"]), (daemon.standardError, ["warning", "error"])] {
            for line in text.split(separator: "\n") {
                let object = try JSONValue.parse(Array(line.utf8))
                #expect(levels.contains(object.text("level") ?? ""), "\(line)")
                #expect(object.text("message") != nil)
                #expect(object.text("time") != nil)
                guard let event = object.text("event"), event.hasPrefix("push_") else { continue }
                pushes.insert(event)
                #expect(object.text("apns_id")?.count == 36 && object["attempt"]?.integerValue != nil, "\(line)")
            }
        }
        #expect(pushes == ["push_sent", "push_retrying", "push_failed"])
        #expect(daemon.standardOutput.contains(#""message": "Sent""#))
        #expect(daemon.standardError.contains(#""retry": 1"#))
    }

    @Test(arguments: [("warning", 1), ("error", 0)])
    func `log_level omits lower levels`(level: String, retries: Int) throws {
        let daemon = try run(Stage(), ["log_successes": "true", "log_level": "\"\(level)\""])
        #expect(daemon.standardOutput.isEmpty)
        #expect(daemon.complaints.count { $0.contains("Retrying count (1).") } == retries)
        #expect(daemon.complaints.count { $0.contains("[Gapless E]") } == 3)
    }

    @Test(arguments: ["info", "error"]) func `SIGUSR1 logs one line of counters at any level`(level: String) throws {
        let (stage, daemon) = try given(["log_level": "\"\(level)\""])
        try stage.push(pushJob("0f"))
        #expect(try waitUntil { try stage.counter(.sent) == 1 })
        daemon.signal(SIGUSR1)
        #expect(daemon.says("Counters: "))
        let line = try #require(daemon.reports.first { $0.contains("Counters: ") })
        #expect(line.hasPrefix("[Gapless I] STAMP Counters: claimed 1, sent 1, retried 0, "), "\(line)")
        #expect(line.contains(#/in flight 0, longest turn \d+ ms\.$/#), "\(line)")
    }

    @Test func `no output contains a secret, also after errors`() throws {
        let stage = try Stage()
        try stage.command("CONFIG", "SET", "requirepass", "hush-5417")
        let settings: [String: String?] = ["redis_password": "\"hush-5417\"", "log_level": "\"debug\"", "log_successes": "true"]
        let daemon = try stage.startOpen(settings)
        stage.simulator.behave { $0.script.failures = [.init(.status(403, "InvalidProviderToken"), 1)] }
        try stage.push(pushJob("0b"))
        #expect(daemon.says("InvalidProviderToken"))
        try stage.write(settings.merging(["redis_password": "\"hush-9999\"", "apns_server": "5"]) { $1 })
        #expect(daemon.reloads(saying: "Reload failed"))
        try stage.killClients()
        #expect(daemon.says("trying again"))
        #expect(daemon.stop()?.status == 0)
        let all = daemon.standardOutput + daemon.standardError
        let key = String(decoding: stage.credentials.providerKey.pem, as: UTF8.self).split(separator: "\n")
        #expect(key.count > 3)
        for secret in key.dropFirst().dropLast() + ["hush", "eyJ", "bearer "] { #expect(!all.contains(secret)) }
    }
}
