import Platform
import Testing

@testable import RedisQueue

@Suite("The heartbeat")
struct LivenessTests {
    private func firstBeat(_ mode: QueueSettings.DeliveryMode, lease: Duration) -> Duration? {
        let now = Instant.now
        var liveness = Liveness(lease: lease, own: "w", mode: mode, now: now)
        liveness.beginServing(now: now)
        return (1...100).lazy.map { Duration.milliseconds(100 * $0) }.first { liveness.nextBeat(now: now + $0) != nil }
    }

    @Test func `comes after a fifth of the lease`() {
        #expect(firstBeat(.atLeastOnce, lease: .seconds(30)) == .seconds(6))
    }

    @Test func `comes after a second with at_most_once, because only it reads the pauses`() {
        #expect(firstBeat(.atMostOnce, lease: .seconds(30)) == .seconds(1))
        #expect(firstBeat(.atMostOnce, lease: .seconds(3)) == .milliseconds(600))
    }
}
