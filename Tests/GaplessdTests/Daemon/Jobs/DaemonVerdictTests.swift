import APNSSimulator
import Harness
import JSONBytes
import RedisQueue
import Testing

@Suite("Final responses", .blocking)
struct DaemonVerdictTests {
    @Test func `410 causes a dead letter and a feedback entry with its timestamp`() throws {
        let (stage, daemon) = try given()
        stage.simulator.plan(token: deviceToken(1), answers: [.status(410, "Unregistered", timestamp: 1_763_683_200_123)])
        stage.simulator.plan(token: deviceToken(2), answers: [.status(410, "ExpiredToken", timestamp: 5)])
        let job = pushJob(
            deviceToken(1), #""identifier":"user 7 \u00fc","topic":"com.example.app.voip","push_type":"voip","trace":"t-1""#)
        try stage.push([job, pushJob(deviceToken(2), #""identifier":18446744073709551615"#)])
        #expect(try waitUntil { try stage.status().feedback == 2 })
        #expect(try stage.status().dead == 2)
        let notes = try stage.feedback().sorted { ($0.text("reason") ?? "") > ($1.text("reason") ?? "") }
        #expect(notes[0].text("token") == deviceToken(1))
        #expect(notes[0].text("topic") == "com.example.app.voip")
        #expect(notes[0].text("reason") == "Unregistered")
        #expect(notes[0].number("status") == 410)
        #expect(notes[0].number("timestamp") == 1_763_683_200_123)
        #expect(notes[0].text("identifier") == "user 7 ü")
        #expect(notes[0].text("verdict") == "dead")
        #expect(notes[1].text("topic") == Stage.topic)
        #expect(notes[1].text("reason") == "ExpiredToken")
        #expect(notes[1]["identifier"] == .number("18446744073709551615"))
        #expect(notes[1].text("verdict") == "dead")
        let letter = try #require(try stage.deadLetters().first { $0.text("token") == deviceToken(1) })
        #expect(letter.text("job") == job)
        #expect(letter.number("status") == 410 && letter.text("trace") == "t-1")
        #expect(letter.number("attempts") == 1)
        #expect(daemon.says(#"[Gapless E] "#))
        #expect(
            daemon.complaints.contains(
                #"[Gapless E] STAMP Final SendPayload Error (ID "user 7 \u00fc"): 410 Unregistered | \#(job)."#))
        #expect(try stage.counter(.dead) == 2)
    }

    @Test func `a bad token becomes a dead letter at the next acceptance, with the verdict suspect`() throws {
        let (stage, _) = try givenOpen()
        stage.simulator.plan(token: deviceToken(1), answers: [.usual(400)])
        stage.simulator.plan(token: deviceToken(2), answers: [.status(400, "DeviceTokenNotForTopic")])
        try stage.push([pushJob(deviceToken(1)), pushJob(deviceToken(2))])
        #expect(waitUntil { stage.simulator.totals.requests == 3 })
        #expect(try stage.status().dead == 0)
        try stage.accept(until: { try stage.status().dead == 2 })
        let notes = try stage.feedback()
        #expect(Set(notes.map { $0.text("reason") }) == ["BadDeviceToken", "DeviceTokenNotForTopic"])
        #expect(Set(notes.map { $0.text("verdict") }) == ["suspect"])
        #expect(notes.allSatisfy { $0["timestamp"] == .null })
        #expect(Set(notes.map { $0.number("status") }) == [400])
    }

    @Test func `a maximum drops the oldest dead letters and feedback entries, counted and logged`() throws {
        let (stage, daemon) = try given(["redis_dead_letter_max": "5", "redis_feedback_max": "6"])
        for number in 1...12 {
            stage.simulator.plan(token: deviceToken(number), answers: [.usual(410)])
            try stage.push(pushJob(deviceToken(number)))
            #expect(try waitUntil { try stage.counter(.dead) == number })
        }
        #expect(try stage.deadLetters().map { $0.text("token") } == (8...12).map(deviceToken))
        #expect(try stage.feedback().map { $0.text("token") } == (7...12).map(deviceToken))
        #expect(try stage.counter(.trimmed) == 7 + 6)
        #expect(daemon.says("dead letters beyond redis_dead_letter_max were dropped from beta_apns_queue."))
        #expect(daemon.says("feedback entries beyond redis_feedback_max were dropped from beta_apns_queue."))
    }

    @Test func `without a maximum, 10,000 dead letters and 100,000 feedback entries cause a warning`() throws {
        let (stage, daemon) = try given()
        for (key, count) in [(stage.keys.dead, 9998), (stage.keys.feedback, 99_999)] {
            try stage.command("EVAL", "for i = 1, \(count) do redis.call('RPUSH', KEYS[1], '{}') end", "1", key)
        }
        stage.simulator.plan(token: deviceToken(1), answers: [.usual(410)])
        try stage.push(pushJob(deviceToken(1)))
        #expect(daemon.says("beta_apns_queue has 100000 feedback entries: look at them, or set redis_feedback_max."))
        for count in 10_000...10_002 {
            try stage.push("no job")
            #expect(try waitUntil { try stage.status().dead == count })
        }
        #expect(daemon.stop()?.status == 0)
        func warnings(of daemon: DaemonProcess) -> [Substring] { daemon.complaints.filter { $0.contains("dead letters") } }
        func warning(_ count: Int) -> Substring {
            "[Gapless W] STAMP beta_apns_queue has \(count) dead letters: look at them, or set redis_dead_letter_max."
        }
        #expect(warnings(of: daemon) == [warning(10_000)])
        let next = try stage.start()
        #expect(next.says("has 10002 dead letters"), "also logged at the start")
        try stage.push("no job")
        #expect(try waitUntil { try stage.status().dead == 10_003 })
        #expect(next.stop()?.status == 0)
        #expect(warnings(of: next) == [warning(10_002)])
        let bounded = try stage.start(["redis_dead_letter_max": "20000"])
        #expect(bounded.says("Connected to Redis"))
        #expect(bounded.stop()?.status == 0)
        #expect(warnings(of: bounded).isEmpty)
    }

    @Test func `the results stream gets one entry for every final outcome`() throws {
        let (stage, _) = try given(["redis_results_key": "\"results\"", "redis_results_max": "100"])
        stage.simulator.plan(token: deviceToken(1), answers: [.usual(503)])
        stage.simulator.plan(token: deviceToken(2), answers: [.usual(410)])
        try stage.push([
            pushJob(deviceToken(1), #""identifier":"a\"b""#), pushJob(deviceToken(2), #""identifier":2"#),
            pushJob(deviceToken(3), #""expires_at":5"#), "no job",
        ])
        #expect(try stage.drains())
        #expect(try waitUntil { (try stage.command("XLEN", "results").integer ?? 0) >= 3 })
        let entries = try stage.results()
        func fields(_ token: String) -> [String: String] {
            let all = entries.filter { $0["token"] == token }
            #expect(all.count == 1, "one entry of \(token)")
            return all.first ?? [:]
        }
        let sent = fields(deviceToken(1))
        #expect(sent["status"] == "200")
        #expect(sent["identifier"] == "a\"b")
        #expect(sent["attempts"] == "2")
        #expect(sent["apns_id"] == stage.simulator.ledger.requests(for: deviceToken(1)).last?.apnsID)
        #expect(sent["app"] == "" && sent["topic"] == Stage.topic && sent["push_type"] == "alert" && sent["channel"] == "")
        #expect(sent["worker"]?.isEmpty == false && sent["timestamp"] == "")
        let times = try ["claimed_at", "sent_at", "responded_at"].map { try #require(sent[$0].flatMap { Int64($0) }) }
        #expect(times == times.sorted() && times[0] > 1_700_000_000_000, "\(times)")
        #expect(abs(times[2] / 1000 - (sent["at"].flatMap { Int64($0) } ?? 0)) <= 60)
        let gone = fields(deviceToken(2))
        #expect(gone["reason"] == "Unregistered" && gone["timestamp"].flatMap { Int64($0) } ?? 0 > 1_500_000_000_000)
        #expect(fields(deviceToken(3))["sent_at"] == "" && fields(deviceToken(3))["claimed_at"] != "")
        #expect(fields(deviceToken(3))["reason"] == "Expired")
        #expect(entries.count == 4, "the invalid job also has an entry")
    }

    @Test func `the results stream never holds more than its cap`() throws {
        let (stage, _) = try given(["redis_results_key": "\"results\"", "redis_results_max": "5"])
        try stage.push((0..<40).map { "no job \($0)" })
        #expect(try stage.drains())
        #expect(try waitUntil { try stage.status().dead == 40 })
        #expect(try stage.command("XLEN", "results").integer == 5)
    }
}
