import APNSSimulator
import Glibc
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("The word filter", .blocking)
struct DaemonFilterTests {
    @Test func `a dropped job becomes a dead letter byte for byte, and the other jobs are sent`() throws {
        let (stage, daemon) = try given([
            "filter_words": #"["rude"]"#, "redis_results_key": "\"results\"", "log_successes": "true",
        ])
        let rude = pushJob("0b", #""identifier": 154"#, data: #"{"aps":{"alert":"how \u0052UDE"}}"#)
        try stage.push([pushJob("0a"), rude, pushJob("0c", data: #"{"rude":"crude"}"#)])
        #expect(try stage.settles(2))
        let letter = try #require(try stage.deadLetters().first)
        #expect(letter.text("reason") == "Filtered")
        #expect(letter.text("job") == rude)
        #expect(letter.text("token") == "0b")
        #expect(letter.number("identifier") == 154)
        #expect(letter.number("attempts") == 0)
        #expect(try stage.counter(.dead) == 1)
        #expect(try stage.counter(.sent) == 2)
        #expect(try stage.feedback().isEmpty)
        #expect(try stage.command("XLEN", "results").integer == 3)
        #expect(stage.simulator.ledger.requests(for: "0b").isEmpty)
        #expect(
            waitUntil {
                daemon.complaints.contains { $0 == "[Gapless E] STAMP Final SendPayload Error (ID 154): Filtered | \(rude)." }
            })
        #expect(daemon.stop()?.status == 0)
        #expect(try Call(["audit", stage.write()]).status == 0)
    }

    @Test func `a masked job is sent with stars, and stored unchanged`() throws {
        let (stage, daemon) = try given([
            "filter_words": #"["rude"]"#, "filter_action": "\"mask\"", "log_successes": "true",
        ])
        stage.simulator.plan(token: "0b", answers: [.usual(503), .usual(410)])
        let first = pushJob("0a", data: #"{ "aps" : {"alert":"So \u0072ude, so crude"}, "rude":1.50 }"#)
        let (head, tail) = (#"{"aps":{"alert":"\u0072ude "#, #""}}"#)
        let full = head + String(repeating: "x", count: 4096 - head.utf8.count - tail.utf8.count) + tail
        try stage.push([first, pushJob("0b", data: #"{"aps":{"alert":"rude"}}"#), pushJob("0c", data: full)])
        #expect(try stage.settles(2))
        #expect(stage.simulator.ledger.requests(for: "0c").first?.body?.count == 4096 - 5, "the limit is for the masked payload")
        let body = try #require(stage.simulator.ledger.requests(for: "0a").first?.body)
        #expect(String(decoding: body, as: UTF8.self) == #"{ "aps" : {"alert":"So ****, so crude"}, "rude":1.50 }"#)
        let resent = stage.simulator.ledger.requests(for: "0b").compactMap(\.body)
        #expect(resent == Array(repeating: Array(#"{"aps":{"alert":"****"}}"#.utf8), count: 2))
        #expect(try stage.deadLetters().first?.text("job")?.contains(#""rude""#) == true)
        #expect(daemon.says("Sent: \(first)."))
    }

    @Test func `a job with a value of filter_match becomes a dead letter, also if words are masked`() throws {
        let (stage, _) = try given([
            "filter_match": #"[{"path": "aps.category", "equals": ["ad", 7]}]"#, "filter_words": #"["rude"]"#,
            "filter_action": "\"mask\"",
        ])
        let stopped = pushJob("0b", data: #"{"aps":{"category":"\u0061d","alert":"rude"}}"#)
        try stage.push([
            pushJob("0a", data: #"{"aps":{"category":"news"}}"#), stopped, pushJob("0c", data: #"{"aps":{"category":7.0}}"#),
        ])
        #expect(try stage.settles(1))
        let letters = try stage.deadLetters()
        #expect(letters.map { $0.text("reason") } == ["Filtered", "Filtered"])
        #expect(letters.contains { $0.text("job") == stopped })
        #expect(stage.simulator.totals.requests == 1)
        try File.write(stopped, to: stage.folder.file("job.json"))
        let explained = try Call([
            "explain", stage.write(["filter_match": #"[{"path": "aps.category", "equals": ["ad"]}]"#]),
            stage.folder.file("job.json"),
        ])
        #expect(explained.status == 65 && explained.output.contains("Filtered"))
    }

    @Test func `SIGHUP reads the word file again`() throws {
        let stage = try Stage()
        try File.write("# for later\nother\n", to: stage.folder.file("words.txt"))
        let daemon = try stage.start(["filter_words_path": "\"words.txt\""])
        try stage.push(pushJob("0a", data: #"{"aps":{"alert":"rude"}}"#))
        #expect(stage.accepts(1))
        try File.write("rude\n", to: stage.folder.file("words.txt"))
        #expect(daemon.reloads())
        try stage.push(pushJob("0b", data: #"{"aps":{"alert":"rude"}}"#))
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(stage.simulator.totals.requests == 1)
    }

    @Test func `send applies the filter`() throws {
        let stage = try Stage()
        let call = try Call(["send", stage.write(["filter_words": #"["rude"]"#]), "--token", "0a", "--alert", "Rude"])
        #expect(call.status == 1)
        #expect(call.errors == "Filtered: the payload contains a word from filter_words.\n")
        let masked: [String: String?] = ["filter_words": #"["rude"]"#, "filter_action": "\"mask\""]
        #expect(try Call(["send", stage.write(masked), "--token", "0b", "--alert", "Rude"]).status == 0)
        let body = try #require(stage.simulator.ledger.requests(for: "0b").first?.body)
        #expect(String(decoding: body, as: UTF8.self) == #"{"aps": {"alert": "****"}}"#)
    }

    @Test func `check prints the number of words`() throws {
        let stage = try Stage()
        let call = try Call([
            "check", "--offline", stage.write(["filter_words": #"["rude", "ruder"]"#, "metrics_listen": "\"[::1]:0\""]),
        ])
        #expect(call.status == 0)
        #expect(call.output.contains("\nfilter      2 words, drop\n"))
        #expect(call.output.contains("\nmetrics     http://[::1]:0/metrics\n"))
    }
}
