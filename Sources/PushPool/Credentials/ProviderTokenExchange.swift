public import Platform

/// Shares the provider tokens of this process with processes on other machines, through a store that they have in common.
///
/// The owner knows the store. On a thread of its own it sends `requests` there whenever `wanted` is rung, and once a minute, and
/// returns the replies. A session waits for a reply only before its first token, and for two seconds at most; without a reply the
/// process keeps its own token. All tokens are sealed with a key that only owners of the signing key can derive.
public final class ProviderTokenExchange: Sendable {
    /// Asks for the token of one signing key.
    public struct Request: Sendable, Equatable {
        public struct Offer: Sendable, Equatable {
            public var sealed: [UInt8]
            /// A name of the token that does not reveal it.
            public var id: String
            public var age: Duration
        }

        /// Identifies the signing key.
        public var name: String
        /// Stored tokens of this age or older are due for a new one; `nil` asks for no new one.
        public var oldest: Duration?
        /// A token of this process that the store may not have. It replaces an older one.
        public var offer: Offer?
        /// The id of the token that APNs has called expired.
        public var refused: String?
    }

    public enum Reply: Sendable, Equatable {
        /// The stored token, with its age by the clock of the store.
        case token(sealed: [UInt8], age: Duration)
        /// This process signs a token and offers it, within `TokenSharing.permission`.
        case mint
        /// Another process is signing a token: ask again.
        case wait
        /// The store has no token, and none was asked for.
        case none
    }

    /// The least time between two tokens of a key.
    public static let between = TokenSchedule.between
    /// A request at this interval keeps the token of an idle process fresh.
    public static let interval = Duration.seconds(60)

    /// Rung for a request that a session waits for.
    public let wanted: WakeUp
    private let sources = Locked<[String: ProviderTokenSource]>([:])

    public init(wanted: WakeUp = WakeUp()) { self.wanted = wanted }

    func add(_ source: ProviderTokenSource, name: String) { sources.withLock { $0[name] = source } }

    /// The requests to send now.
    public func requests() -> [Request] {
        let all = sources.withLock { $0.values.map(\.self) }
        return all.compactMap { $0.request() }.sorted { $0.name < $1.name }
    }

    /// - Parameter sentAt: the time of the request: a permission to sign is valid for a short time.
    public func received(_ reply: Reply, to request: Request, sentAt: Instant) {
        sources.withLock { $0[request.name] }?.received(reply, sentAt: sentAt)
    }

    /// The store does not respond: no session waits for it.
    public func failed() {
        for source in sources.withLock({ $0.values.map(\.self) }) { source.exchangeFailed() }
    }
}
