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
