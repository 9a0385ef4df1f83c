import Platform
import PushPool
import Testing

@testable import APNSClient

@Suite("A client that shuts down")
struct SendShutdownTests {
    private var fixture = MachineFixture()

    @Test mutating func `closes its pool once every send has a result`() {
        let id = fixture.send().id
        #expect(fixture.tell { $0.stopped(until: $1 + .seconds(30), now: $1, &$2) } == [])
        #expect(fixture.end(id, .delivered(apnsID: nil)).last == .close)
        var effects: [SendEffect] = []
        fixture.machine.poolClosed(&effects)
        #expect(effects == [])
        #expect(fixture.machine.isClosed)
    }

    @Test func `ends what is left at the limit`() {
        var fixture = MachineFixture(capacity: 1)
        let ids = (0..<3).map { _ in fixture.send().id }
        fixture.tell { $0.stopped(until: $1 + .seconds(30), now: $1, &$2) }
        #expect(fixture.machine.deadline == fixture.now + .seconds(30))
        let effects = fixture.advance(.seconds(30))
        #expect(effects.prefix(2) == [.cancel(ids[0]), .cancel(ids[1])])
        #expect(effects.errors.map(\.cause) == [.shutDown])
        #expect(effects.last == .close)
        #expect(fixture.tell { $0.withdrew(ids[1], now: $1, &$2) }.errors.map(\.fate) == [.notSent])
        #expect(fixture.end(ids[0], .maybeProcessed(.closedByUs)).errors.map(\.fate) == [.maybeSent])
    }

    @Test mutating func `reports what a stuck session did not report`() {
        let id = fixture.send().id
        fixture.tell { $0.stopped(until: $1, now: $1, &$2) }
        var effects: [SendEffect] = []
        fixture.machine.poolClosed(&effects)
        #expect(effects.errors.map(\.fate) == [.maybeSent])
        #expect(fixture.end(id, .delivered(apnsID: nil)) == [])
    }
}
