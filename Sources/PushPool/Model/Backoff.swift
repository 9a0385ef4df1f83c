internal import Platform

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

/// The pauses between the dials of one pool: after a failure the next dial waits for the backoff.
struct DialPauses {
    var backoff: Backoff
    /// Consecutive rounds of dials that failed or whose sessions ended early.
    private var failures = 0
    /// The current round ends with the first failure of one of its dials.
    private(set) var round = 0
    private(set) var nextDial: Instant

    init(_ backoff: Backoff, now: Instant) { (self.backoff, nextDial) = (backoff, now) }

    var isFailing: Bool { failures > 0 }

    /// Dials may follow at once: a session has served, or there are new settings.
    mutating func end(now: Instant) { (failures, nextDial) = (0, now) }

    /// A dial failed, or its session ended early. All failures of one round have the same cause and count once.
    mutating func failed(inRound dialled: Int, now: Instant, random: Double) {
        let isCounted = dialled < round && failures > 0
        // A failure that its round has already reported changes nothing.
        if isCounted && now < nextDial { return }
        if !isCounted {
            round += 1
            failures = min(failures + 1, 1000)
        }
        nextDial = now + backoff.wait(afterFailures: failures, random: random)
    }
}
