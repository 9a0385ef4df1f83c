import DequeModule

/// The generation of each session's provider token: a refused old token needs no new one if a newer one exists.
struct SessionTokens {
    /// Ended sessions that are still known: their last outcomes may not have been read yet.
    static let mostEnded = 256

    private var generations: [SessionID: UInt64] = [:]
    private var ended = Deque<SessionID>()

    /// The session sends its next requests with the token of this generation.
    mutating func uses(_ generation: UInt64, _ session: SessionID) { generations[session] = generation }

    mutating func end(of session: SessionID) {
        if generations[session] == nil { return }
        ended.append(session)
        if ended.count > SessionTokens.mostEnded { generations[ended.removeFirst()] = nil }
    }

    subscript(session: SessionID) -> UInt64? { generations[session] }
}
