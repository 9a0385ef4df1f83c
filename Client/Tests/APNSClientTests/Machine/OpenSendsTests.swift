import Platform
import PushPool
import Testing

@testable import APNSClient

@Suite("The sends without a result")
struct OpenSendsTests {
    private var sends = OpenSends()
    private let now = Instant.now
    private let request: PushRequest

    init() throws {
        var cache = SharedHeadersCache()
        request = try PushRequest(MachineFixture.push, topic: PushTopic("com.example.app"), cache: &cache, time: 0)
    }

    private mutating func add(deadline: Duration? = nil) -> SendID {
        let id = sends.reserve()
        sends.add(PendingSend(request, deadline: deadline.map { now + $0 }), as: id)
        return id
    }

    /// The numbers of the sends that go to the pool now, in order.
    private mutating func enterPool() -> [SendID] {
        var ids: [SendID] = []
        while let notification = sends.nextNotification() { ids.append(SendID(notification.id)) }
        return ids
    }

    @Test mutating func `go to the pool in their order, without those that have a result, and resends first`() {
        let ids = (0..<4).map { _ in add() }
        let removals = (0..<2).map { _ in sends.remove(ids[1]) }
        #expect(removals == [true, false])
        #expect(sends.count == 3)
        #expect(enterPool() == [ids[0], ids[2], ids[3]])
        sends.requeue(ids[3])
        sends.requeue(ids[0])
        #expect(enterPool() == [ids[0], ids[3]])
        #expect(sends[ids[0]]?.phase == .pooled)
        #expect(sends.records == 0)
    }

    @Test mutating func `leave the order when they fail`() {
        let ids = (0..<3).map { _ in add() }
        _ = sends.nextNotification()
        var failed: [SendID] = []
        while let (id, _) = sends.popWaiting() { failed.append(id) }
        #expect(failed == Array(ids[1...]))
        #expect(enterPool() == [])
    }

    @Test mutating func `are due at their deadline and at the end of their rest, and never after their result`() {
        let (late, gone, resting) = (add(deadline: .seconds(9)), add(deadline: .seconds(1)), add())
        sends.rest(resting, until: now + .seconds(5))
        #expect(sends.deadline == now + .seconds(1))
        _ = sends.remove(gone)
        let early = sends.popDue(now: now + .seconds(4))
        #expect(early?.0 == nil)
        let first = sends.popDue(now: now + .seconds(9))
        let second = sends.popDue(now: now + .seconds(9))
        #expect([first?.0, second?.0] == [resting, late])
        #expect(sends.deadline == nil)
    }

    @Test mutating func `are not remembered for long after their result`() {
        for _ in 0..<20_000 {
            let id = add(deadline: .seconds(60))
            _ = sends.remove(id)
            sends.trim()
        }
        #expect(sends.records < 3000)
        #expect(sends.ids == [])
    }

    @Test mutating func `are dropped from the order after their result, once those are the majority`() {
        let ids = (0..<1000).map { _ in add() }
        for id in ids[500...] { _ = sends.remove(id) }
        sends.trim()
        #expect(sends.records == 1000)
        for id in ids[100..<500] { _ = sends.remove(id) }
        sends.trim()
        #expect(sends.records == 100)
        #expect(enterPool().first == ids[0])
    }
}
