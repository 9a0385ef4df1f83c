import Platform

/// The last snapshot of the dispatcher, for the threads of the metrics endpoint.
final class ProcessBoard: Sendable {
    struct Notice: Sendable {
        var snapshot: ProcessSnapshot
        var at: Instant
    }

    private let notice = Locked<Notice?>(nil)

    func publish(_ snapshot: ProcessSnapshot, at now: Instant) {
        notice.withLock { $0 = Notice(snapshot: snapshot, at: now) }
    }

    /// `nil` before the dispatcher's first turn.
    var latest: Notice? { notice.withLock { $0 } }
}
