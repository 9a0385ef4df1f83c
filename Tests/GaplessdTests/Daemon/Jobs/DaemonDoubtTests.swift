import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("A job that APNs may have processed, repeatedly", .blocking)
struct DaemonDoubtTests {
    @Test func `is resent ten times uncounted, then three times counted`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["retry_delays": "[0.1]"])
        try stage.open(daemon)
        stage.simulator.plan(token: "0a", answers: Array(repeating: .resetStream(code: 2), count: 100))
        try stage.push(pushJob("0a"))
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(stage.simulator.ledger.requests(for: "0a").count == 14)
        #expect(Set(stage.simulator.ledger.requests(for: "0a").map(\.expiration)).count == 1)
        let letter = try stage.command("LINDEX", stage.keys.dead, "0").text ?? ""
        #expect(letter.contains(#""attempts": 14"#) || letter.contains(#""attempts":14"#), "\(letter)")
        #expect(try stage.counter(.retried) == 3)
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `counts each send once without a response`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["retry_delays": "[0.1]", "apns_request_timeout": "0.3"])
        try stage.open(daemon)
        stage.simulator.plan(token: "0a", answers: Array(repeating: .silent, count: 4))
        try stage.push(pushJob("0a"))
        #expect(try waitUntil { try stage.status().dead == 1 })
        #expect(stage.simulator.ledger.requests(for: "0a").count == 4)
        let letter = try #require(try stage.deadLetters().first)
        #expect(letter.text("reason") == "Timeout")
        #expect(letter.number("attempts") == 4)
        #expect(try stage.counter(.retried) == 3)
        #expect(try stage.counter(.maybeDuplicate) == 3)
        #expect(daemon.stop()?.status == 0)
    }

    /// After a cut there is no session for longer than `unreachableTimeout`, so that the job goes back to the list.
    @Test func `is counted across releases, and keeps its first deadline`() throws {
        let stage = try Stage()
        let daemon = try stage.start([
            "pool_size": "1", "retry_delays": "[0.1]", "retry_limit": "0", "apns_dial_backoff_min": "1.2",
            "apns_dial_backoff_max": "1.2",
            "apns_dial_backoff_jitter": "0",
        ])
        try stage.open(daemon)
        stage.simulator.plan(token: "0a", answers: Array(repeating: .closeConnection(recorded: false), count: 100))
        try stage.push(pushJob("0a"))
        #expect(try waitUntil(atMost: .seconds(60)) { try stage.status().dead == 1 }, "\(daemon.standardError)")
        #expect(stage.simulator.ledger.requests(for: "0a").count == 11)
        #expect(Set(stage.simulator.ledger.requests(for: "0a").map(\.expiration)).count == 1)
        #expect(try stage.counter(.released) > 0, "it was never released")
        #expect(daemon.stop()?.status == 0)
    }

    @Test func `one that APNs certainly refused pauses after ten times, and costs no retry`() throws {
        let stage = try Stage()
        let daemon = try stage.start(["pool_size": "1"])
        try stage.open(daemon)
        stage.simulator.plan(token: "0a", answers: Array(repeating: .resetStream(code: 7), count: 15))
        try stage.push(pushJob("0a"))
        #expect(stage.accepts(2))
        #expect(stage.simulator.ledger.requests(for: "0a").count == 16)
        #expect(try stage.counter(.postponed) == 1)
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.counter(.maybeDuplicate) == 0)
        #expect(daemon.stop()?.status == 0)
    }
}
