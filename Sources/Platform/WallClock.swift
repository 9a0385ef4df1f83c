import Glibc

/// The time of day, which may jump. Use it only for values that APNs, Redis or people read as a time of day.
public struct WallClock: Equatable, Sendable {
    /// Seconds since 1970.
    public var seconds: Double

    /// Whole seconds since 1970, the unit of `apns-expiration`.
    public var unixSeconds: Int64 { Int64(seconds) }

    public init(seconds: Double) { self.seconds = seconds }

    public static func now() -> WallClock {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return WallClock(seconds: Double(time.tv_sec) + Double(time.tv_nsec) / 1e9)
    }
}
