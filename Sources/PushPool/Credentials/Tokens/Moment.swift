internal import Glibc
import Platform

/// The present time by the monotonic clock and by the clock that APNs reads.
struct Moment {
    var now: Instant
    /// Unix seconds.
    var unixTime: Int64

    init(now: Instant = .now, unixTime: Int64 = Int64(time(nil))) {
        self.now = now
        self.unixTime = unixTime
    }
}
