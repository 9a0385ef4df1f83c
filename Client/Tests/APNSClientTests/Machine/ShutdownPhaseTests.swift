import Platform
import Testing

@testable import APNSClient

@Suite("The shutdown of a client")
struct ShutdownPhaseTests {
    private var shutdown = Shutdown()
    private let now = Instant.now

    @Test mutating func `drains until no send is left, and closes once`() {
        let early = shutdown.endDrain(isIdle: true, now: now)
        #expect(!early)
        #expect(!shutdown.isOrdered)
        shutdown.order(until: now + .seconds(30))
        #expect(shutdown.isOrdered)
        #expect(shutdown.deadline == now + .seconds(30))
        let steps = [false, true, true].map { shutdown.endDrain(isIdle: $0, now: now) }
        #expect(steps == [false, true, false])
        #expect(shutdown.deadline == nil)
        #expect(!shutdown.isComplete)
        shutdown.poolClosed()
        #expect(shutdown.isComplete)
    }

    @Test mutating func `closes at the earliest limit`() {
        for seconds in [30, 10, 20] { shutdown.order(until: now + .seconds(seconds)) }
        let steps = [9, 10].map { shutdown.endDrain(isIdle: false, now: now + .seconds($0)) }
        #expect(steps == [false, true])
    }

    @Test mutating func `does not begin again after the pool is closed`() {
        shutdown.poolClosed()
        shutdown.order(until: now)
        let begins = shutdown.endDrain(isIdle: true, now: now)
        #expect(!begins)
        #expect(shutdown.isOrdered)
        #expect(shutdown.isComplete)
    }
}
