internal import DequeModule
import Platform

/// This process' share of the rate limits of all daemons of a list: leased windows of time, in which it alone may send.
///
/// The windows of all daemons do not overlap, so that together they keep the limits. Within a window the pushes are spread
/// evenly.
struct FleetShare {
    /// The usual length of a window. A push that needs more time under the limits gets a longer one.
    static let usualLength = Duration.milliseconds(100)
    /// A push may be this late; then its place is lost, because the next window may belong to another daemon.
    private static let slack = Duration.milliseconds(20)
    /// The slack could move pushes of two windows into one second: this part of the limits is not used.
    private static let margin = 0.975
    /// The next window is leased when the leased time ends within this time.
    private static let lead = Duration.milliseconds(100)

    private struct Window {
        /// The time of the next push.
        var next: Instant
        var end: Instant
    }

    let limits: RateLimits.Limits
    private var windows: Deque<Window> = []
    /// The length of the window to lease; `nil` if none is needed.
    private(set) var wanted: Duration?

    init(limits: RateLimits.Limits) { self.limits = limits }

    /// Returns the time from which a push may go: now or earlier means at once. `nil` if a lease is needed first.
    ///
    /// - Parameter bits: of payload.
    mutating func opening(bits: Double, now: Instant) -> Instant? {
        let time = time(of: bits)
        while let window = windows.first {
            windows[0].next = max(window.next, now - FleetShare.slack)
            if windows[0].next + time <= window.end { return windows[0].next }
            windows.removeFirst()
        }
        wanted = max(FleetShare.usualLength, time)
        return nil
    }

    /// Counts a push that goes now, after `opening` returned a time that has passed.
    mutating func count(bits: Double, now: Instant) {
        if windows.isEmpty { return }
        windows[0].next += time(of: bits)
        if let last = windows.last, last.end - now < FleetShare.lead { wanted = max(FleetShare.usualLength, time(of: bits)) }
    }

    /// Redis has given this window to this process.
    mutating func leased(from start: Instant, length: Duration) {
        windows.append(Window(next: start, end: start + length))
        wanted = nil
    }

    /// The time that one push takes under both limits.
    private func time(of bits: Double) -> Duration {
        var seconds = 0.0
        if limits.pushesPerSecond > 0 { seconds = 1 / limits.pushesPerSecond }
        if limits.bitsPerSecond > 0 { seconds = max(seconds, bits / limits.bitsPerSecond) }
        return .seconds(min(seconds / FleetShare.margin, 1e6))
    }
}
