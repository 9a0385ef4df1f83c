import Harness
import Platform
@testable import PushPool
import Testing

/// Collects what a mailbox receives.
final class Collector<Element: Sendable> {
    let mailbox = Mailbox<Element>()
    private(set) var all: [Element] = []

    /// Collects until `isEnough`, and records an issue if that takes longer than `limit`.
    @discardableResult
    func wait(
        _ limit: Duration = .seconds(60), sourceLocation: SourceLocation = #_sourceLocation,
        until isEnough: ([Element]) -> Bool
    ) -> Bool {
        let isDone = waitUntil(atMost: limit) { isEnough(drain()) }
        if !isDone { Issue.record("not within \(limit); so far: \(all.suffix(20))", sourceLocation: sourceLocation) }
        return isDone
    }

    /// Returns everything so far.
    func drain() -> [Element] {
        all += mailbox.drain()
        return all
    }

    func forget() {
        _ = mailbox.drain()
        all = []
    }
}

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
