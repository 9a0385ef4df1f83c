import APNSSimulator
import Glibc
import Harness
import RedisQueue
import Testing

@Suite("A job that APNs may have processed, repeatedly", .blocking)
struct DaemonDoubtTests {

    /// After a cut there is no session for longer than `unreachableTimeout`, so that the job goes back to the list.
    @Test func `is counted across releases, and keeps its first deadline`() throws {
        let (stage, daemon) = try givenOpen([
            "pool_size": "1", "retry_delays": "[0.1]", "retry_limit": "0", "apns_dial_backoff_min": "1.2",
            "apns_dial_backoff_max": "1.2",
            "apns_dial_backoff_jitter": "0",
        ])
        stage.simulator.plan(token: "0a", answers: Array(repeating: .closeConnection(recorded: false), count: 100))
        try stage.push(pushJob("0a"))
        #expect(try waitUntil(atMost: .seconds(60)) { try stage.status().dead == 1 }, "\(daemon.standardError)")
        #expect(stage.simulator.ledger.requests(for: "0a").count == 11)
        #expect(Set(stage.simulator.ledger.requests(for: "0a").map(\.expiration)).count == 1)
        #expect(try stage.counter(.released) > 0, "it was never released")
        #expect(daemon.stop()?.status == 0)
    }
}
