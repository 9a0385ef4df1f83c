import SystemTime

/// When the dispatcher publishes its snapshot: at once, but at most ten times a second and at least once a second.
struct NoticeSchedule: Equatable {
    static let least = Duration.milliseconds(100)
    static let most = Duration.seconds(1)

    private var last: Instant?
    private var hasMore = false

    /// Records a turn of the dispatcher. Returns whether to publish now.
    mutating func turned(now: Instant) -> Bool {
        if let last, now - last < Self.least {
            hasMore = true
            return false
        }
        last = now
        hasMore = false
        return true
    }

    /// The next turn that is needed only to publish.
    var deadline: Instant? { last.map { $0 + (hasMore ? Self.least : Self.most) } }
}
