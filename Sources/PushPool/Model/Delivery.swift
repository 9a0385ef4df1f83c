/// The outcome of one attempt.
public struct Delivery: Sendable, Equatable {
    public var id: UInt64
    public var session: SessionID
    public var outcome: Outcome
    /// Present with `PoolSettings.recordsTimes`, for a request that was submitted.
    public var times: AttemptTimes?

    public init(id: UInt64, session: SessionID, outcome: Outcome, times: AttemptTimes? = nil) {
        self.id = id
        self.session = session
        self.outcome = outcome
        self.times = times
    }
}
