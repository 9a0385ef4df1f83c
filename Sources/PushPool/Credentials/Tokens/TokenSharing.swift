import Platform

/// Decides when a source waits for a reply of the exchange, and when it continues without one. Knows no thread and no clock.
///
/// | state | `ask` | `replied` | `failed` |
/// |---|---|---|---|
/// | idle | asked | idle | alone |
/// | asked, for less than `timeout` | asked | idle | alone |
/// | asked, for longer | alone | idle | alone |
/// | alone, for less than `solitude` | alone | idle | alone |
struct TokenSharing: Equatable {
    enum Answer: Equatable {
        /// A new request.
        case asked
        /// A reply to an earlier request is expected.
        case waiting
        /// The exchange does not respond.
        case alone
    }

    /// The longest wait of a session that has no token.
    let timeout: Duration
    /// The time without further waits after a request that got no reply.
    static let solitude = Duration.seconds(30)
    /// A permission to sign is used within this time, well before the exchange gives it to another process.
    static let permission = Duration.seconds(3)

    private var askedAt: Instant?
    private var aloneUntil: Instant?
    /// Whether the exchange has the present token.
    var isShared = false
    /// The generation that APNs has called expired.
    var refused: UInt64 = 0

    init(timeout: Duration = .seconds(2)) { self.timeout = timeout }

    /// Whether a request waits for its reply.
    var isAsking: Bool { askedAt != nil }

    mutating func ask(now: Instant) -> Answer {
        if let aloneUntil, now < aloneUntil { return .alone }
        guard let askedAt else {
            self.askedAt = now
            return .asked
        }
        if now - askedAt < timeout { return .waiting }
        failed(now: now)
        return .alone
    }

    mutating func replied() { (askedAt, aloneUntil) = (nil, nil) }

    mutating func failed(now: Instant) { (askedAt, aloneUntil) = (nil, now + Self.solitude) }
}
