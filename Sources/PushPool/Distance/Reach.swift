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
