import APNSSimulator
import Harness
import RedisQueue
import Testing

@Suite("A server that cuts connection after connection", .blocking)
struct DaemonCutTests {
    @Test(arguments: ["cut", "cut-after", "goaway:abrupt"])
    func `each cut repeats only the streams of a slow start, not a thousand`(answer: String) throws {
        let (stage, daemon) = try givenOpen()
        stage.simulator.behave {
            $0.script.latency = .milliseconds(2)...(.milliseconds(6))
            $0.script.turns = [.init(150, repeats: true, (try? Answer(answer)) ?? .accept)]
        }
        try stage.push((0..<1500).map { pushJob(deviceToken($0)) })
        #expect(try stage.drains(atMost: .seconds(90)), "\(daemon.standardError.suffix(2000))")
        let counts = stage.simulator.ledger.acceptedCounts
        #expect(counts.count == 1501, "lost")
        let cuts = stage.simulator.totals.connections
        let twice = counts.values.reduce(0) { $0 + $1 - 1 }
        let resent = try stage.counter(.resent)
        #expect(cuts > 10)
        // The first two sessions broke at full speed, and two more if a GOAWAY had replaced them before.
        #expect(resent < 4000 + 50 * cuts, "\(resent) resent in \(cuts) cuts")
        // One per cut, and the requests whose responses were on the wire, within 2 to 6 ms.
        #expect(twice <= 10 * cuts, "\(twice) delivered twice in \(cuts) cuts")
        #expect(try stage.counter(.retried) == 0)
        #expect(try stage.status().dead == 0)
        #expect(daemon.stop()?.status == 0)
    }
}
