/// The outcome of one attempt.
public struct Delivery: Sendable, Equatable {
    public var id: UInt64
    public var session: SessionID
    public var outcome: Outcome

    public init(id: UInt64, session: SessionID, outcome: Outcome) {
        self.id = id
        self.session = session
        self.outcome = outcome
    }
}
