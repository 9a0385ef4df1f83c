/// An event of a pool other than an outcome. Events are rare and never occur per push.
public enum PoolEvent: Sendable, Equatable {
    /// A session is open: TCP, TLS, ALPN h2 and the first SETTINGS are done.
    case opened(SessionID, address: String, streams: Int)
    /// A session has ended for this reason; its attempts were reported before.
    case closed(SessionID, address: String, SessionError)
    /// A dial has failed; the next one starts after `retryIn`. The id tells which credential was used
    /// (`SessionPool.usesPresentCredential`).
    case dialFailed(SessionID, address: String, SessionError, retryIn: Duration)
    /// The capacity changed without another event, by SETTINGS or a draining session.
    case capacityChanged
    /// The pool has changed the number of sessions.
    case resized(from: Int, to: Int)
    /// The peer sent ENHANCE_YOUR_CALM: the pool is limited to half of its rate.
    case slowed(pushesPerSecond: Int)
    /// The limit, which has grown since the last ENHANCE_YOUR_CALM, has ended.
    case slowdownEnded
    /// APNs refuses the new credential, with this response or error: the previous one stays in use, and the new one is tried
    /// again later.
    case credentialRefused(String, retryIn: Duration)
    case tokens(TokenNews)
    /// Windows or streams have limited the pool for some seconds.
    case limited(PoolAdvice)
}

/// One session of the process. Ids count dials over all pools from 1 and are never reused.
public struct SessionID: Sendable, Hashable, Comparable {
    public let number: UInt64
    public init(_ number: UInt64) { self.number = number }
    public static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// A larger pool that would carry more, because windows or streams limit the present one.
public struct PoolAdvice: Sendable, Equatable {
    public var sessions: Int
    public var roundTrip: Duration
    /// The usual payload in bytes.
    public var payload: Int
    public var pushesPerSecond: Int
    /// The suggested number of sessions and its estimate.
    public var suggestion: Int
    public var suggestedPushesPerSecond: Int
    /// Whether the number of sessions varies, so that its maximum is the limit.
    public var isMaximum: Bool
}

/// The measurements of the open sessions of a pool.
public struct PoolFigures: Sendable, Equatable {
    public var sessions = 0
    /// The smoothed round trip of the sessions' PINGs; `nil` before the first one is answered.
    public var roundTrip: Duration?
    /// The shortest round trip of any open session.
    public var shortestRoundTrip: Duration?
    /// Bytes of payload that the peers have not confirmed by WINDOW_UPDATE.
    public var bytesInFlight = 0
    /// The send window of one session, in bytes.
    public var window = 0
    /// The usual payload in bytes; 0 before the first push.
    public var payload = 0
    /// The time for which pushes waited, by `Limitation.rawValue`.
    public var blocked = PoolFigures.unblocked

    /// Shared by the figures of all apps without a pool.
    private static let unblocked = [Duration](repeating: .zero, count: Limitation.allCases.count)

    public init() {}

    public func blocked(by limitation: Limitation) -> Duration { blocked[limitation.rawValue] }

    /// The reach of one session with this many streams; `nil` before the first round trip.
    public func reach(streams: Int) -> Reach? {
        shortestRoundTrip.map { Reach(roundTrip: $0, window: window, streams: streams, payload: payload) }
    }
}

/// The limit that keeps waiting pushes in the queue.
public enum Limitation: Int, Sendable, CaseIterable {
    /// The peer's or our own limit on open streams.
    case streams
    /// The send windows of the connections (RFC 9113, 5.2).
    case window
    /// TLS or TCP takes no more bytes.
    case socket
    case rateLimit
}

/// The pushes per second that one session carries at a distance.
///
/// A server opens a window again when half of it is used up, so that half of the window is sent in each round trip; a stream
/// is open for at least one round trip.
public struct Reach: Sendable, Equatable {
    /// The window of a connection in bytes until the server enlarges it (RFC 9113, 6.9.2).
    public static let usualWindow = 65_535

    public let pushesPerSecond: Double

    /// - Parameter payload: in bytes.
    public init(roundTrip: Duration, window: Int, streams: Int, payload: Int) {
        let seconds = max(roundTrip / .seconds(1), 0.000_01)
        let pushes = min(Double(max(1, window)) / 2 / Double(max(1, payload)), Double(max(1, streams)))
        pushesPerSecond = pushes / seconds
    }

    /// Returns the number of sessions that carry this many pushes per second, at least 1 and at most `most`.
    public func sessions(for rate: Double, atMost most: Int) -> Int {
        let needed = (rate / pushesPerSecond).rounded(.up)
        return needed >= Double(most) ? most : max(1, Int(needed))
    }
}
