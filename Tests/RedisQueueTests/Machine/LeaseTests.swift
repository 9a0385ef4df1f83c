import Platform
import Testing

@testable import RedisQueue

@Suite("Leases")
struct LeaseTests {
    var lease = Lease(lease: .seconds(15), own: "me", isGuarded: true, now: start)

    private mutating func look(_ counter: Int64, after seconds: Double, isGone: Bool = false) -> [Takeover.Dead] {
        lease.observed([("me", 1), ("other", counter)], now: start + .seconds(seconds)) { _ in isGone }
        return lease.dead
    }

    @Test mutating func `a counter that stands still for a lease is dead, and not before`() {
        for second in stride(from: 0.0, to: 15, by: 3) { #expect(look(5, after: second).isEmpty) }
        #expect(look(5, after: 15) == [.init(worker: "other", counter: 5, silence: .seconds(15))])
    }

    @Test mutating func `a counter that moves, even backwards, is alive`() {
        for (index, counter) in [5, 6, 5, 6, 5, 6, 7, 3, 2].enumerated() {
            #expect(look(Int64(counter), after: Double(index) * 3).isEmpty)
        }
    }

    @Test mutating func `a gap between the observations restarts every one`() {
        for second in stride(from: 0.0, to: 12, by: 3) { #expect(look(5, after: second).isEmpty) }
        #expect(look(5, after: 100).isEmpty)
        for second in stride(from: 103.0, to: 115, by: 3) { #expect(look(5, after: second).isEmpty) }
        #expect(look(5, after: 115) == [.init(worker: "other", counter: 5, silence: .seconds(15))])
    }

    @Test mutating func `a process that is certainly gone need not be waited for`() {
        #expect(look(5, after: 0, isGone: true) == [.init(worker: "other", counter: 5)])
        #expect(look(5, after: 1, isGone: true) == [.init(worker: "other", counter: 5)])
    }

    @Test func `about this very process, and about other places, nothing is concluded`() {
        let own = WorkerName.make(instance: 3)
        #expect(!WorkerName.isGone(own.text))
        let parts = own.text.split(separator: "-")
        #expect(WorkerName.isGone("\(parts[0])-4194305-1-1"))
        #expect(WorkerName.isGone("\(parts[0])-\(parts[1])-1-1"))
        #expect(!WorkerName.isGone("0123456789abcdef-4194305-1-1"))
        #expect(!WorkerName.isGone("\(parts[0])-0-1-1"))
        #expect(!WorkerName.isGone("\(parts[0])--1-1-1"))
        #expect(!WorkerName.isGone("anything"))
    }

    @Test func `a unique name has the place and process of the first, and another instance and identity`() {
        let (first, one, other) = (WorkerName.make(instance: 3), WorkerName.unique(), WorkerName.unique())
        #expect(Set([first.text, one.text, other.text]).count == 3)
        #expect(Set([first.identity, one.identity, other.identity]).count == 3)
        #expect(one.text.split(separator: "-").prefix(3) == first.text.split(separator: "-").prefix(3))
        #expect(!WorkerName.isGone(one.text))
    }
}

@Suite("The heartbeat")
struct HeartbeatTests {
    private func firstBeat(_ mode: QueueSettings.DeliveryMode, lease duration: Duration) -> Duration? {
        let now = Instant.now
        var lease = Lease(lease: duration, own: "w", isGuarded: mode.keepsJobs, now: now)
        lease.beginServing(now: now)
        return (1...100).lazy.map { Duration.milliseconds(100 * $0) }.first { lease.nextBeat(now: now + $0) != nil }
    }

    @Test func `comes after a fifth of the lease`() {
        #expect(firstBeat(.atLeastOnce, lease: .seconds(30)) == .seconds(6))
    }

    @Test func `comes after a second with at_most_once, because only it reads the pauses`() {
        #expect(firstBeat(.atMostOnce, lease: .seconds(30)) == .seconds(1))
        #expect(firstBeat(.atMostOnce, lease: .seconds(3)) == .milliseconds(600))
    }
}
