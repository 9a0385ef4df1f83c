import Platform

/// Decides when the dispatcher publishes its snapshot: with `metrics_listen` at once, but at most ten times a second and at least
/// once a second; otherwise at most once a second, and only after a turn.
struct NoticeSchedule: Equatable {
    static let least = Duration.milliseconds(100)
    static let most = Duration.seconds(1)

    private var last: Instant?
    private var hasMore = false

    /// Records a turn of the dispatcher. Returns whether to publish now.
    ///
    /// - Parameter isWatched: whether `metrics_listen` is set.
    mutating func turned(now: Instant, isWatched: Bool) -> Bool {
        if let last, now - last < (isWatched ? Self.least : Self.most) {
            hasMore = true
            return false
        }
        last = now
        hasMore = false
        return true
    }

    /// The next turn that is needed only to publish.
    func deadline(isWatched: Bool) -> Instant? {
        if isWatched { return last.map { $0 + (hasMore ? Self.least : Self.most) } }
        return hasMore ? last.map { $0 + Self.most } : nil
    }
}
