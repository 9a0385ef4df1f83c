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
    public var blocked = [Duration](repeating: .zero, count: Limitation.allCases.count)

    public init() {}

    public func blocked(by limitation: Limitation) -> Duration { blocked[limitation.rawValue] }

    /// The reach of one session with this many streams; `nil` before the first round trip.
    public func reach(streams: Int) -> Reach? {
        shortestRoundTrip.map { Reach(roundTrip: $0, window: window, streams: streams, payload: payload) }
    }
}
