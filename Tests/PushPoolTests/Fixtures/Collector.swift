import Harness
import Platform
import Testing

@testable import PushPool

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
