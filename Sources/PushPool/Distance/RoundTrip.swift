import Platform

/// Measures the round trip of one session with PINGs: one when it opens, and one every ten seconds while it is in service.
struct RoundTrip {
    static let interval = Duration.seconds(10)
    /// The numbers of these PINGs have the highest bit; those of `SessionMachine` do not.
    private static let firstNumber: UInt64 = 1 << 63

    private var number = RoundTrip.firstNumber
    private var sentAt: Instant?
    private var next: Instant
    /// The mean of the latest round trips; `nil` before the first one.
    private(set) var smoothed: Duration?
    private(set) var shortest: Duration?

    init(now: Instant) { next = now }

    /// Returns the number of the PING to send now, if one is due.
    mutating func due(now: Instant) -> UInt64? {
        guard next <= now else { return nil }
        number += 1
        (sentAt, next) = (now, now + Self.interval)
        return number
    }

    /// The response to a PING arrived. Returns whether it was the latest of these.
    mutating func answered(_ number: UInt64, now: Instant) -> Bool {
        guard number == self.number, let sentAt else { return false }
        self.sentAt = nil
        let sample = max(.zero, now - sentAt)
        smoothed = smoothed.map { $0 + (sample - $0) / 4 } ?? sample
        shortest = shortest.map { min($0, sample) } ?? sample
        return true
    }
}
