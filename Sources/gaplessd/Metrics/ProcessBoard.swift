import Clocks
import Threads

/// Where the dispatcher leaves what it knows of itself, for whoever looks.
final class ProcessBoard: Sendable {
    struct Notice: Sendable {
        var snapshot: ProcessSnapshot
        var at: Instant
    }

    private let notice = Locked<Notice?>(nil)

    func publish(_ snapshot: ProcessSnapshot, at now: Instant) {
        notice.withLock { $0 = Notice(snapshot: snapshot, at: now) }
    }

    /// `nil` until the dispatcher has turned once.
    var latest: Notice? { notice.withLock { $0 } }
}
