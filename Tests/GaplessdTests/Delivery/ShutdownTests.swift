import Platform
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The shutdown")
struct ShutdownTests {
    /// The daemon exits no later than five seconds after `drain_timeout`, whatever does not respond.
    @Test func `the steps after drain_timeout take less than five seconds together`() throws {
        var shutdown = Shutdown()
        let start = Instant.now
        let drained = start + .seconds(20)
        #expect(shutdown.stopSignalReceived(timeout: .seconds(20), .atLeastOnce, now: start) == .drain)
        #expect(shutdown.tick(now: drained, held: 1) == .closePools(isForced: false))
        let givesUp = try #require(shutdown.deadline)
        #expect(givesUp + LogWriter.closingTimeout * 1.5 < drained + .seconds(5))
        #expect(shutdown.tick(now: givesUp, held: 1) == .giveUp)
        #expect(shutdown.phase == .stopped)
    }
}
