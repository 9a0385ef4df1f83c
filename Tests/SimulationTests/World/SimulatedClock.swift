@testable import Platform

/// The time of a run, which only its events move.
final class SimulatedClock: Sendable {
    private let elapsed = Locked<Int64>(0)

    /// Nanoseconds since the beginning.
    var time: Int64 {
        get { elapsed.withLock { $0 } }
        set { elapsed.withLock { $0 = newValue } }
    }

    var now: Instant { SimulatedClock.beginning + .nanoseconds(time) }

    /// The same in each process, and later than the true time.
    private static let beginning = Instant(attoseconds: 4_000_000_000 * 1_000_000_000_000_000_000)
    /// Unix seconds of the beginning.
    private static let date: Int64 = 1_800_000_000

    var microsecondsSince1970: Int64 { SimulatedClock.date * 1_000_000 + time / 1000 }
    var wallClock: WallClock { WallClock(seconds: Double(microsecondsSince1970) / 1e6) }
}
