import Platform

/// The pauses between dials: 50 ms, doubling to 2 s, or to 5 s after an error of the server. Each is between half of it and the
/// whole, so that the workers of a Redis that returns do not all dial at once. They grow until a claim works.
struct Reconnection {
    static let longestPause = Duration.seconds(2)
    private static let shortestPause = Duration.milliseconds(50)
    /// The pause after a refusal, which only an operator can end.
    private static let refusalPause = Duration.seconds(5)
    /// The number of redirections in a row after which the dials pause.
    private static let mostRedirects = 3

    private(set) var dialsAt: Instant
    private var failures = 0
    private var redirects = 0
    private var state: UInt64

    /// - Parameter seed: any number; equal seeds give equal pauses.
    init(seed: UInt64, now: Instant) {
        state = seed | 1
        dialsAt = now
    }

    /// Whether at most one dial or connection has failed, or was refused, since the last claim that worked.
    var isFirstDial: Bool { failures <= 1 }

    mutating func succeeded() { (failures, redirects) = (0, 0) }

    /// - Parameter isError: whether the server has replied an error to a call that served. Then the dials pause longer.
    mutating func failed(isError: Bool = false, now: Instant) {
        dialsAt = now + nextPause(isError ? Reconnection.refusalPause : Reconnection.longestPause)
    }

    mutating func refused(now: Instant) {
        failures += 1
        dialsAt = now + Reconnection.refusalPause
    }

    /// Another node of the cluster is dialled at once, unless the nodes keep pointing at each other.
    ///
    /// - Returns: whether they do.
    mutating func redirected(now: Instant) -> Bool {
        redirects += 1
        let isEndless = redirects > Reconnection.mostRedirects
        if isEndless { failed(now: now) } else { dialsAt = now }
        return isEndless
    }

    private mutating func nextPause(_ longest: Duration) -> Duration {
        let whole = min(longest, Reconnection.shortestPause * (1 << min(failures, 7)))
        failures += 1
        // xorshift64 (Marsaglia 2003).
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return whole / 2 + whole * Int(state % 1024) / 2048
    }
}
