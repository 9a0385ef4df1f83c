import Clocks
internal import Glibc

/// Now, by the clock that nobody sets and by the one that APNs reads.
struct Moment {
    var now: Instant
    /// Unix seconds.
    var unixTime: Int64

    init(now: Instant = .now, unixTime: Int64 = Int64(time(nil))) {
        self.now = now
        self.unixTime = unixTime
    }
}
