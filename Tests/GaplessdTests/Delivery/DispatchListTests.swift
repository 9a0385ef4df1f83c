import Platform
import PushPool
import RedisQueue
import Testing

@testable import gaplessd

@Suite("The dispatcher: leases and shutdown")
struct DispatchListTests {
    private typealias Fixture = MachineFixture
    private let fixture = MachineFixture()

    @Test mutating func `while a lease is in doubt, jobs of its list are neither sent nor claimed`() {
        let inPool = fixture.send()
        _ = fixture.claim(Fixture.job())
        let effects = fixture.effects { $0.happened(.leaseInDoubt, list: 0, &$1) }
        #expect(effects == [.log(.leaseInDoubt(list: nil)), .withdraw(.keep([inPool, JobID(slot: 1, use: 1)]), app: 0)])
        #expect(fixture.withdraw([inPool], .keep([inPool])) == [])
        #expect(fixture.sent() == [] && fixture.offers() == [0])
        #expect(fixture.inFlight == 2)
        _ = fixture.effects { $0.happened(.connected(warnings: []), list: 0, &$1) }
        #expect(Set(fixture.sent()) == [inPool, JobID(slot: 1, use: 1)])
    }

    @Test mutating func `a lost registration stops sending without a line in the log, and so does a repeated disconnection`() {
        let inPool = fixture.send()
        let effects = fixture.effects { $0.happened(.registrationLost, list: 0, &$1) }
        #expect(effects == [.withdraw(.keep([inPool]), app: 0)])
        #expect(fixture.withdraw([inPool], .keep([inPool])) == [])
        #expect(fixture.effects { $0.happened(.interrupted, list: 0, &$1) } == [])
        #expect(fixture.effects { $0.happened(.resumed, list: 0, &$1) } == [])
        #expect(fixture.sent() == [inPool])
    }

    @Test mutating func `a new name of the worker is an error in the log`() {
        let effects = fixture.effects { $0.happened(.renamed(worker: "new", number: "7"), list: 0, &$1) }
        #expect(effects == [.log(.renamed(to: "new", number: "7", list: nil))])
    }

    @Test func `the doubt of one list does not stop another`() {
        let fixture = MachineFixture(MachineFixture.plan(lists: ["first", "second"]))
        let (first, second) = (fixture.send(list: 0), fixture.send(list: 1))
        let effects = fixture.effects { $0.happened(.leaseInDoubt, list: 1, &$1) }
        #expect(effects.last == .withdraw(.keep([second]), app: 0))
        _ = fixture.withdraw([second], .keep([second]))
        #expect(fixture.fail(first, .notProcessed(.streamReset(code: 7))) == [])
        #expect(fixture.sent() == [first])
        #expect(fixture.offers(mayHaveJobs: [false, false]) == [18, 0])
    }

    @Test mutating func `the first signal gives back what is not on a stream and waits for the others`() {
        let (onStream, inPool) = (fixture.send(), fixture.send())
        let effects = fixture.effects { $0.stopSignalReceived(&$1) }
        #expect(effects == [.log(.draining(2, timeout: .seconds(20))), .withdraw(.release, app: 0)])
        #expect(fixture.withdraw([inPool]).releases(2))
        #expect(fixture.claim(Fixture.job()).releases(3) && fixture.offers() == [0])
        #expect(fixture.tick() == [])
        #expect(fixture.deadline == fixture.now + .seconds(20))
        #expect(fixture.accept(onStream) == [.acknowledge(ClaimID(1), list: 0)])
        #expect(fixture.tick() == [.closePools])
        #expect(fixture.effects { $0.poolsClosed(&$1) } == [.stopQueues])
        let stopped = fixture.effects { $0.happened(.stopped, list: 0, &$1) }
        #expect(stopped == [.log(.stopped(fixture.counters))] && fixture.isStopped)
    }

    @Test func `a stop returns jobs to the head also with several apps`() {
        let fixture = MachineFixture(MachineFixture.plan(apps: [nil, "beta"]))
        let id = fixture.send(Fixture.job("ab", #""app":"beta""#), by: 1)
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        #expect(fixture.withdraw([id], app: 1).releases(1))
    }

    @Test mutating func `at drain_timeout the jobs on streams go back with their original bytes`() {
        let id = fixture.send()
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        fixture.pass(.seconds(20))
        #expect(fixture.tick() == [.closePools])
        #expect(fixture.fail(id, .maybeProcessed(.closedByUs)).settlements.map(\.effect) == [.release(toTail: false)])
        #expect(fixture.effects { $0.poolsClosed(&$1) } == [.stopQueues])
        fixture.pass(.seconds(5))
        #expect(fixture.tick() == [.log(.unconfirmed(.atLeastOnce))] && fixture.isStopped)
    }

    @Test mutating func `suspects do not wait for an acceptance at shutdown`() {
        let (waiting, late) = (fixture.send(), fixture.send())
        _ = fixture.reject(waiting, 400, "BadDeviceToken")
        #expect(fixture.effects { $0.stopSignalReceived(&$1) }.releases(1))
        #expect(fixture.reject(late, 400, "BadDeviceToken").releases(2))
    }

    @Test mutating func `the second signal leaves the jobs in Redis`() {
        _ = fixture.send()
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        #expect(fixture.effects { $0.stopSignalReceived(&$1) } == [.log(.leaving(1, .atLeastOnce))])
        #expect(fixture.isStopped)
    }

    @Test func `with at_most_once the second signal returns the jobs to the list`() {
        let fixture = MachineFixture(MachineFixture.plan(delivery: .atMostOnce))
        _ = fixture.send()
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        #expect(fixture.effects { $0.stopSignalReceived(&$1) } == [.log(.leaving(1, .atMostOnce)), .closePools])
        #expect(fixture.effects { $0.poolsClosed(&$1) }.releases(1))
        #expect(fixture.effects { $0.stopSignalReceived(&$1) } == [] && !fixture.isStopped)
    }

    @Test mutating func `a reload is ignored at shutdown`() {
        #expect(fixture.effects { $0.reloadSignalReceived(&$1) } == [.readConfiguration])
        _ = fixture.effects { $0.stopSignalReceived(&$1) }
        #expect(fixture.effects { $0.reloadSignalReceived(&$1) } == [.log(.reloadIgnored)])
    }
}

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
