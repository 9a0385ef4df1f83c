/// The wait before the next dial: it doubles from `first` to `most`, with jitter in both directions, and never exceeds `most`.
public struct Backoff: Sendable, Equatable {
    public var first: Duration
    public var most: Duration
    /// A fraction: 0.2 spreads a wait over 80 % to 120 %.
    public var jitter: Double

    public init(first: Duration = .milliseconds(500), most: Duration = .seconds(60), jitter: Double = 0.2) {
        self.first = first
        self.most = most
        self.jitter = jitter
    }

    /// - Parameters:
    ///   - failures: consecutive failed dials, from 1.
    ///   - random: 0 up to 1, from the caller, so that this stays a pure value.
    public func wait(afterFailures failures: Int, random: Double) -> Duration {
        var wait = first
        for _ in 1..<max(1, min(failures, 64)) where wait < most { wait *= 2 }
        return min(most, min(wait, most) * (1 + jitter * (2 * random - 1)))
    }
}
