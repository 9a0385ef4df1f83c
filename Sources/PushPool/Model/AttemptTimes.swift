public import Platform

/// The times at which a request left for the wire and its outcome was known.
public struct AttemptTimes: Sendable, Equatable {
    public var sent: Instant
    public var ended: Instant

    public init(sent: Instant, ended: Instant) { (self.sent, self.ended) = (sent, ended) }
}
