import Clocks
import PushPool
import Testing
import Threads

/// Waits for a condition, never longer than `limit`. What it waits for is looked at every time a mailbox rings.
final class Collector<Element: Sendable> {
    let mailbox = Mailbox<Element>()
    private(set) var all: [Element] = []

    /// Collects until `isEnough`; whether that came to be.
    @discardableResult
    func wait(
        _ limit: Duration = .seconds(20), sourceLocation: SourceLocation = #_sourceLocation,
        until isEnough: ([Element]) -> Bool
    ) -> Bool {
        let deadline = Instant.now + limit
        var poller = Poller()
        while true {
            all += mailbox.drain()
            if isEnough(all) { return true }
            if deadline <= .now {
                Issue.record("not within \(limit); so far: \(all.suffix(20))", sourceLocation: sourceLocation)
                return false
            }
            poller.reset()
            poller.add(mailbox.wakeDescriptor, for: .read)
            poller.wait(until: min(deadline, .now + .milliseconds(20)))
        }
    }

    /// Everything so far.
    func drain() -> [Element] {
        all += mailbox.drain()
        return all
    }

    func forget() {
        _ = mailbox.drain()
        all = []
    }
}
