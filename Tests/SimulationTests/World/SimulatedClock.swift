@testable import SystemTime

/// The time of a run, which only its events move. One thread uses it.
final class SimulatedClock: @unchecked Sendable {
    /// Nanoseconds since the beginning.
    var time: Int64 = 0 { didSet { now = SimulatedClock.beginning + .nanoseconds(time) } }
    private(set) var now = SimulatedClock.beginning

    /// The same in each process, and later than the true time.
    private static let beginning = Instant(attoseconds: 4_000_000_000 * 1_000_000_000_000_000_000)
    /// Unix seconds of the beginning.
    private static let date: Int64 = 1_800_000_000

    var microsecondsSince1970: Int64 { SimulatedClock.date * 1_000_000 + time / 1000 }
    var wallClock: WallClock { WallClock(seconds: Double(microsecondsSince1970) / 1e6) }
}
