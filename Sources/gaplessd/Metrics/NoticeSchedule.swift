import Clocks

/// When the dispatcher tells of itself: at once, but not more often than ten times a second, and not less than once.
struct NoticeSchedule: Equatable {
    static let least = Duration.milliseconds(100)
    static let most = Duration.seconds(1)

    private var last: Instant?
    private var hasMore = false

    /// The dispatcher has turned. Whether it is to tell.
    mutating func turned(now: Instant) -> Bool {
        if let last, now - last < Self.least {
            hasMore = true
            return false
        }
        last = now
        hasMore = false
        return true
    }

    /// When it wants another turn.
    var deadline: Instant? { last.map { $0 + (hasMore ? Self.least : Self.most) } }
}
