import APNSSimulator
import Glibc
import Harness
import Platform
import RedisQueue
import Testing

@testable import PushPool

@Suite("The deadline of a job", .blocking)
struct DaemonDeadlineTests {
    /// Four streams, each with a response after three seconds: the other jobs are sent after that.
    @Test func `applies at the send, and a relative one starts at the send`() throws {
        let stage = try Stage { $0.behaviour.streamLimit = 4 }
        let daemon = try stage.startOpen(["pool_size": "1", "retry_delays": "[0.01]"])
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
        #expect(
            Set(
                try stage.deadLetters().map {
                    "\($0.text("token") ?? "") \($0.text("reason") ?? "") \($0.number("attempts") ?? -1)"
                })
                == ["0c Expired 0", "0d Expired 1"])
        #expect(try stage.counter(.expired) == 2)
        #expect(try stage.status().unexplained == 0)
        #expect(daemon.stop()?.status == 0)
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
        #expect(daemon.stop()?.status == 0)
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
