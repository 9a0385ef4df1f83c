import Platform
import Testing

@testable import PushPool

/// A queue as a value in simulated time, and the wake-ups that its changes cause.
final class QueueFixture {
    let limits: SharedRateLimits
    var now = Instant.now
    private(set) var queue: PushQueue
    private var rung: Set<ObjectIdentifier> = []

    init(_ limits: SharedRateLimits = SharedRateLimits()) {
        self.limits = limits
        queue = PushQueue(rateLimits: limits, now: now)
    }

    var count: Int { queue.count }
    var figures: PoolFigures { queue.figures(now: now) }
    func look() -> PushQueue.Load { queue.look() }
    func withdraw() -> [UInt64] { queue.withdraw(now: now) }
    func withdraw(_ ids: Set<UInt64>) -> [UInt64] { queue.withdraw(ids, now: now) }

    func push(_ batch: inout [PushPool.Notification]) { ring(queue.push(&batch, now: now)) }
    func allowSending(until deadline: Instant?) { ring(queue.allowSending(until: deadline, now: now)) }
    func limit(to pushesPerSecond: Int?) { ring(queue.limit(to: pushesPerSecond, now: now)) }
    func limitsChanged() { ring(queue.limitsChanged()) }
    func join(_ session: SessionID, _ wakeUp: WakeUp) { queue.join(session, wakeUp: wakeUp) }
    func leave(_ session: SessionID) { ring(queue.leave(session)) }

    fileprivate func take(into batch: Ring<PushPool.Notification>, _ room: Room, _ session: SessionID) -> Instant? {
        let (wakeUps, again) = queue.take(into: batch, room: room, for: session, now: now)
        ring(wakeUps)
        return again
    }

    private func ring(_ wakeUps: [WakeUp]) { rung.formUnion(wakeUps.map(ObjectIdentifier.init)) }
    fileprivate func takeRing(of wakeUp: WakeUp) -> Bool { rung.remove(ObjectIdentifier(wakeUp)) != nil }
}

/// A session's view of a queue.
struct Taker {
    let id: SessionID
    let queue: QueueFixture
    private let wakeUp = WakeUp()

    init(_ number: UInt64, _ queue: QueueFixture, free: Int = 0) {
        id = SessionID(number)
        self.queue = queue
        queue.join(id, wakeUp)
        if free > 0 { _ = take(free) }
    }

    func take(_ free: Int, bytes: Int = .max) -> [UInt64] { takePaced(free, bytes: bytes).ids }

    /// Returns the ids and the time to ask again.
    func takePaced(_ free: Int, bytes: Int = .max) -> (ids: [UInt64], again: Instant?) {
        let batch = Ring<PushPool.Notification>()
        let again = queue.take(into: batch, Room(streams: free, bytes: bytes), id)
        var ids: [UInt64] = []
        while let notification = batch.popFirst() { ids.append(notification.id) }
        return (ids, again)
    }

    /// Whether the queue has rung since the last look.
    var wasRung: Bool { queue.takeRing(of: wakeUp) }
}

func push(_ ids: ClosedRange<UInt64>, to queue: QueueFixture, avoiding: SessionID? = nil) {
    var batch = ids.map { notification($0, avoiding: avoiding) }
    queue.push(&batch)
    #expect(batch.isEmpty)
}

func push(_ ids: ClosedRange<UInt64>, to work: WorkQueue) {
    var batch = ids.map { notification($0) }
    work.push(&batch)
    #expect(batch.isEmpty)
}
