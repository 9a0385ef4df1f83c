import Platform
import Testing

@testable import PushPool

/// A session's view of a queue.
struct Taker {
    let id: SessionID
    let wakeUp = WakeUp()
    let queue: WorkQueue

    init(_ number: UInt64, _ queue: WorkQueue, free: Int = 0) {
        id = SessionID(number)
        self.queue = queue
        queue.join(id, wakeUp: wakeUp)
        if free > 0 { _ = take(free) }
    }

    func take(_ free: Int, bytes: Int = .max) -> [UInt64] { takePaced(free, bytes: bytes).ids }

    /// Returns the ids and the time to ask again.
    func takePaced(_ free: Int, bytes: Int = .max, now: Instant = .now) -> (ids: [UInt64], again: Instant?) {
        let batch = Ring<PushPool.Notification>()
        let again = queue.take(into: batch, room: Room(streams: free, bytes: bytes), for: id, now: now)
        var ids: [UInt64] = []
        while let notification = batch.popFirst() { ids.append(notification.id) }
        return (ids, again)
    }

    /// Whether somebody has rung since the last look.
    var wasRung: Bool {
        var poller = Poller()
        poller.add(wakeUp.descriptor, for: .read)
        poller.wait(until: .now)
        defer { wakeUp.listen() }
        return poller.readiness(at: 0).contains(.read)
    }
}

func push(_ ids: ClosedRange<UInt64>, to queue: WorkQueue, avoiding: SessionID? = nil) {
    var batch = ids.map { notification($0, avoiding: avoiding) }
    queue.push(&batch)
    #expect(batch.isEmpty)
}
