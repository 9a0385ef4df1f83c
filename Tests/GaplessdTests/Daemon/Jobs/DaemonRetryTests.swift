import APNSSimulator
import Glibc
import Harness
import JSONBytes
import Platform
import RedisQueue
import Testing

@testable import PushPool

@Suite("Retries", .blocking)
struct DaemonRetryTests {
    @Test func `rules of the operator precede the built-in decisions, and an acceptance needs none`() throws {
        let rules = """
            [{"status": 413, "action": "retry", "delays": [0.01]}, {"reason": "ServiceUnavailable", "action": "dead"},
             {"status": 405, "reason": "MethodNotAllowed", "action": "hold"}]
            """
        let (stage, daemon) = try givenOpen(["retry_rules": rules, "retry_delays": "[600]"])
        stage.simulator.plan(token: "0b", answers: [.usual(413)])
        stage.simulator.plan(token: "0c", answers: [.usual(503)])
        try stage.push([pushJob("0a"), pushJob("0b"), pushJob("0c")])
        #expect(try stage.settles(3), "0b is sent again after its own delay")
        #expect(try stage.deadLetters().map { $0.text("token") } == ["0c"])
        #expect(try stage.counter(.retried) == 1)
        stage.simulator.plan(token: "0d", answers: [.usual(405)])
        try stage.push(pushJob("0d"))
        #expect(daemon.says("APNs has responded 405 MethodNotAllowed, and retry_rules hold the app for it."))
        daemon.signal(SIGHUP)
        #expect(try stage.settles(4))
    }

    @Test func `three 503 and an acceptance are four sends, and the marker counts them`() throws {
        let (stage, daemon) = try given(["retry_delays": "[0.3]"])
        let token = deviceToken(1)
        stage.simulator.plan(token: token, answers: [.usual(503), .usual(503), .usual(503)])
        let job = #"{"token":"\#(token)", "extra" : [1, 2.50] , "identifier":154,"data":{"aps":{"alert":"Hi"}} }"#
        let before = unixTime()
        try stage.push(job)
        var seen: [String] = []
        #expect(
            try waitUntil {
                for job in try stage.delayed() where job != seen.last { seen.append(job) }
                return stage.simulator.totals.accepted == 1
            })
        let deadline = try #require(stage.simulator.ledger.entries.first?.expiration)
        let head = job.dropLast(2)
        let id = try #require(stage.simulator.ledger.entries.first?.apnsID)
        let marks = "\"_gapless_deadline\":\(deadline),\"_gapless_apns_id\":\"\(id)\""
        #expect(seen == (1...3).map { "\(head),\"_gapless_RETRYING\":\($0),\(marks) }" })
        #expect(Set(stage.simulator.ledger.entries.map { $0.apnsID.lowercased() }) == [id.lowercased()], "a resend keeps the id")
        #expect((before + 7200...unixTime() + 7200).contains(Int64(deadline) ?? 0))
        #expect(Set(stage.simulator.ledger.entries.map(\.expiration)).count == 1, "a resend keeps the first deadline")
        #expect(stage.simulator.totals.requests == 4)
        #expect(try stage.drains())
        #expect(try stage.counter(.retried) == 3)
        #expect(try stage.counter(.sent) == 1)
        #expect(
            daemon.complaints.filter { $0.contains("SendPayload") }
                == (1...3).map { "[Gapless W] STAMP SendPayload Error (ID 154): 503 ServiceUnavailable. Retrying count (\($0))." }
        )
    }

    @Test func `a delay of 0 resends at once, as the original did`() throws {
        let (stage, _) = try given(["retry_delays": "[0]"])
        stage.simulator.plan(token: "0a", answers: [.usual(503), .usual(500), .usual(503)])
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(1))
        #expect(stage.simulator.totals.requests == 4)
    }

    @Test(arguments: [(503, "ServiceUnavailable"), (502, "")])
    func `after the last resend the job becomes a dead letter with its marker`(status: Int, reason: String) throws {
        let (stage, daemon) = try given()
        let token = deviceToken(1)
        stage.simulator.plan(token: token, answers: Array(repeating: .status(status, reason), count: 9))
        try stage.push(pushJob(token, #""identifier":"abc","expiry":0"#))
        #expect(try waitUntil { try stage.status().dead == 1 })
        let letter = try #require(try stage.deadLetters().first)
        let id = try #require(stage.simulator.ledger.entries.first?.apnsID)
        let last =
            String(pushJob(token, #""identifier":"abc","expiry":0"#).dropLast())
            + #","_gapless_RETRYING":3,"_gapless_apns_id":"\#(id)"}"#
        #expect(letter.text("job") == last)
        #expect(letter.number("status") == Int64(status))
        #expect(letter.text("reason") == reason)
        #expect(letter.text("identifier") == "abc")
        #expect(letter.text("token") == token)
        #expect(letter.number("attempts") == 4)
        #expect(letter.text("apns_id") == stage.simulator.ledger.entries.last?.apnsID)
        #expect(abs(unixTime() - (letter.number("at") ?? 0)) < 30)
        #expect(letter.text("worker") == (try stage.status().workers.first?.name))
        #expect(stage.simulator.totals.requests == 4)
        #expect(stage.simulator.ledger.entries.allSatisfy { $0.expiration == "0" })
        #expect(try stage.counter(.retried) == 3)
        #expect(try stage.counter(.dead) == 1)
        let text = reason.isEmpty ? "\(status)" : "\(status) \(reason)"
        #expect(daemon.says(#"Final SendPayload Error (ID "abc"): \#(text) | \#(last)."#))
    }

    @Test func `a job for several devices is retried only for those that failed`() throws {
        let (stage, _) = try givenOpen()
        stage.simulator.plan(token: deviceToken(2), answers: [.usual(503)])
        stage.simulator.plan(token: deviceToken(3), answers: [.usual(410)])
        let tokens = (1...1000).map { #""\#(deviceToken($0))""# } + [#""xyz""#]
        let head = #"{"identifier":12,"#
        let tail = #","kept":[ 1 ],"data":{"aps":{"alert":"all"}}}"#
        try stage.push(head + #""tokens":["# + tokens.joined(separator: ",") + "]" + tail)
        #expect(try stage.settles(1000))
        #expect(stage.simulator.ledger.acceptedCounts.values.allSatisfy { $0 == 1 })
        #expect(stage.simulator.ledger.requests(for: deviceToken(2)).count == 2)
        let letters = try stage.deadLetters()
        #expect(letters.count == 2)
        #expect(
            Set(letters.compactMap { $0.text("job") })
                == [head + #""token":"xyz""# + tail, head + #""token":"\#(deviceToken(3))""# + tail])
        #expect(Set(letters.map { $0.number("identifier") }) == [12])
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `after a 429 newer pushes to the same token wait behind the refused one`() throws {
        let (stage, _) = try givenOpen(["retry_delays": "[1]"])
        stage.simulator.plan(token: "0a", answers: [.status(429, "TooManyRequests")])
        try stage.push(pushJob("0A", data: #"{"aps":{"alert":"first"}}"#))
        #expect(try waitUntil { try stage.counter(.retried) == 1 })
        try stage.push([pushJob("0a", data: #"{"aps":{"alert":"second"}}"#), pushJob("0b")])
        #expect(stage.accepts(2))
        #expect(stage.simulator.ledger.acceptedCount(token: "0b") == 1)
        #expect(try waitUntil { try stage.status().delayed == 2 }, "it waits in Redis, not in memory")
        #expect(stage.accepts(4))
        let requests = stage.simulator.ledger.requests(for: "0a")
        #expect(requests.map { String(decoding: $0.body ?? [], as: UTF8.self).contains("first") } == [true, true, false])
        #expect(try stage.drains())
        #expect(try stage.counter(.retried) == 1)
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `a retry uses another session`() throws {
        let (stage, daemon) = try givenOpen()
        #expect(waitUntil { daemon.reports.count { $0.contains(" is open, ") } == 2 })
        let tokens = (0..<20).map { deviceToken($0) }
        for token in tokens { stage.simulator.plan(token: token, answers: [.usual(503)]) }
        for (index, token) in tokens.enumerated() {
            let before = stage.simulator.totals.accepted
            try stage.push(pushJob(token))
            #expect(stage.accepts(before + 1))
            let sessions = stage.simulator.ledger.requests(for: token).map(\.connection)
            #expect(sessions.count == 2 && sessions[0] != sessions[1], "\(sessions)")
            try stage.push(pushJob(deviceToken(100 + index)))
            #expect(stage.accepts(before + 2))
        }
        #expect(stage.simulator.totals.connections == 2)
    }
}

@Suite("A job that APNs may have processed, repeatedly", .blocking)
struct DaemonDoubtTests {
    @Test func `is resent ten times uncounted, then three times counted`() throws {
        let (stage, _) = try givenOpen(["retry_delays": "[0.1]"])
        stage.simulator.plan(token: "0a", answers: Array(repeating: .resetStream(code: 2), count: 100))
        try stage.push(pushJob("0a"))
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(stage.simulator.ledger.requests(for: "0a").count == 14)
        #expect(Set(stage.simulator.ledger.requests(for: "0a").map(\.expiration)).count == 1)
        #expect(try stage.deadLetters().map { $0.number("attempts") } == [14])
        #expect(try stage.counter(.retried) == 3)
    }

    @Test func `counts each send once without a response`() throws {
        let (stage, _) = try givenOpen(["retry_delays": "[0.1]", "apns_request_timeout": "0.3"])
        stage.simulator.plan(token: "0a", answers: Array(repeating: .silent, count: 4))
        try stage.push(pushJob("0a"))
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(stage.simulator.ledger.requests(for: "0a").count == 4)
        let letter = try #require(try stage.deadLetters().first)
        #expect(letter.text("reason") == "Timeout")
        #expect(letter.number("attempts") == 4)
        #expect(try stage.counter(.retried) == 3)
        #expect(try stage.counter(.maybeDuplicate) == 3)
    }

    /// After a cut there is no session for longer than `unreachableTimeout`, so that the job goes back to the list.
    @Test func `is counted across releases, and keeps its first deadline`() throws {
        let (stage, daemon) = try givenOpen([
            "pool_size": "1", "retry_delays": "[0.1]", "retry_limit": "0", "apns_dial_backoff_min": "1.2",
            "apns_dial_backoff_max": "1.2", "apns_dial_backoff_jitter": "0",
        ])
        stage.simulator.plan(token: "0a", answers: Array(repeating: .closeConnection(recorded: false), count: 100))
        try stage.push(pushJob("0a"))
        #expect(try waitUntil(atMost: .seconds(60)) { try stage.status().dead == 1 }, "\(daemon.standardError)")
        #expect(stage.simulator.ledger.requests(for: "0a").count == 11)
        #expect(Set(stage.simulator.ledger.requests(for: "0a").map(\.expiration)).count == 1)
        #expect(try stage.counter(.released) > 0, "it was never released")
    }
}

@Suite("The deadline of a job", .blocking)
struct DaemonDeadlineTests {
    /// Four streams, each with a response after three seconds: the other jobs are sent after that.
    @Test func `applies at the send, and a relative one starts at the send`() throws {
        let (stage, _) = try givenOpen(["pool_size": "1"], on: Stage { $0.behaviour.streamLimit = 4 })
        let slow = ["0a", "1a", "2a", "3a"]
        for token in slow { stage.simulator.plan(token: token, answers: [.delay(.seconds(3), then: .accept)]) }
        stage.simulator.plan(token: "0b", answers: [.usual(503)])
        try stage.push(
            slow.map { pushJob($0) } + [
                pushJob("0b", #""expiry":10"#), pushJob("0c", #""expires_at":\#(unixTime() + 1)"#),
                pushJob("0d", #""_gapless_RETRYING":1,"_gapless_deadline":\#(unixTime() + 1)"#), pushJob("0e", #""expiry":0"#),
            ])
        #expect(try waitUntil { try stage.status().inFlight == 8 }, "all are claimed at once")
        #expect(stage.accepts(7))
        let sent = stage.simulator.ledger.requests(for: "0b")
        // Its resend comes 10 ms later, and has the same deadline.
        #expect(sent.count == 2)
        #expect(Set(sent.map(\.expiration)).count == 1)
        let late = try #require(sent.first?.expiration.flatMap { Int($0) })
        let first = try #require(stage.simulator.ledger.requests(for: "0a").first?.expiration.flatMap { Int($0) })
        #expect(late - 10 >= first - 7200 + 2, "ten seconds from its first send")
        #expect(stage.simulator.ledger.requests(for: "0e").map(\.expiration) == ["0"])
        #expect(try stage.drains())
        let letters = try stage.deadLetters()
        #expect(letters.allSatisfy { $0.text("reason") == "Expired" })
        let attempts = letters.map { ($0.text("token"), $0.number("attempts")) }
        #expect(Dictionary(uniqueKeysWithValues: attempts) == ["0c": 0, "0d": 1])
        #expect(try stage.counter(.expired) == 2)
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `stays that of the first send when APNs refuses the stream repeatedly`() throws {
        let (stage, daemon) = try givenOpen()
        stage.simulator.plan(token: "0a", answers: Array(repeating: .resetStream(code: 7), count: 10_000))
        // Ten refusals take about 3.3 s, because each doubles the pause of the session.
        try stage.push(pushJob("0a", #""expiry":6"#))
        #expect(try waitUntil { try stage.counter(.expired) == 1 }, "\(daemon.standardError)")
        let sent = stage.simulator.ledger.requests(for: "0a")
        #expect(sent.count > 10)
        #expect(Set(sent.map(\.expiration)).count == 1)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(try stage.status().unexplained == 0)
    }

    @Test func `of a notification is absolute, or starts at its send`() {
        func timing(_ expiration: Int64?, lifetime: Int64 = 0) -> Notification.Timing {
            Notification(
                id: 1, bytes: [], token: 0..<0, payload: 0..<0,
                headers: SharedHeaders(topic: nil, pushType: "alert", priority: 10),
                expiration: expiration, lifetime: lifetime
            ).timing(at: 1000)
        }
        #expect(timing(nil) == .asItIs)
        #expect(timing(0) == .asItIs, "one attempt, and no deadline")
        #expect(timing(1000) == .asItIs)
        #expect(timing(999) == .tooLate)
        #expect(timing(1010, lifetime: 10) == .asItIs)
        #expect(timing(1009, lifetime: 10) == .later(1010))
        #expect(timing(900, lifetime: 10) == .later(1010))
        #expect(timing(1011, lifetime: 10) == .later(1010), "the clock was put back")
        #expect(timing(.max, lifetime: .max) == .asItIs)
    }
}
