public import Clocks
package import Sockets
internal import Synchronization
public import Threads

/// HTTP/2 sessions to APNs for one app, each on its own thread: a fixed number, or as many as the governor finds useful.
///
/// Notifications go into one queue from which every session takes as many as it has free streams: work reaches whichever
/// session can carry it, and what no session has taken can be withdrawn. The queue has no bound of its own: its one owner
/// keeps what it has pushed and not got back within `capacity` and a batch.
public final class SessionPool: Sendable {
    private let shared: PoolShared
    private let thread: JoinOnce
    private let isClosed = Atomic<Bool>(false)
    private let tokens: Locked<(source: ProviderTokenSource?, renewedAt: SessionID)>

    /// Begins to dial at once.
    ///
    /// - Parameters:
    ///   - deliveries: gets every attempt's end, in batches.
    ///   - events: gets the pool's other news.
    ///   - pacer: of all pools of the daemon.
    /// - Throws: `CredentialError`, or `ThreadError` where there is no thread for it.
    public convenience init(
        settings: PoolSettings, credential: Credential, deliveries: Mailbox<Delivery>, events: Mailbox<PoolEvent>,
        pacer: SharedRateLimits = SharedRateLimits()
    ) throws {
        try self.init(Setup(settings: settings, credential: credential), deliveries: deliveries, events: events, pacer: pacer)
    }

    /// As above, with a setup that was made before.
    public convenience init(
        _ setup: Setup, deliveries: Mailbox<Delivery>, events: Mailbox<PoolEvent>, pacer: SharedRateLimits = SharedRateLimits()
    ) throws(ThreadError) {
        try self.init(setup.configuration, deliveries: deliveries, events: events, pacer: pacer, resolver: Resolver())
    }

    init(
        _ configuration: PoolConfiguration, deliveries: Mailbox<Delivery>, events: Mailbox<PoolEvent>,
        pacer: SharedRateLimits = SharedRateLimits(), resolver: Resolver
    ) throws(ThreadError) {
        let shared = PoolShared(deliveries: deliveries, pacer: pacer, resolver: resolver)
        self.shared = shared
        tokens = Locked((configuration.tokens, SessionID(0)))
        thread = JoinOnce(
            try OwnedThread(name: "apns pool") {
                var loop = PoolLoop(configuration, shared, events: events)
                loop.run()
            })
    }

    deinit { _ = close() }

    /// Streams that the open sessions can have open in all, from the peers' SETTINGS. 0 while none is open. Any thread.
    public var capacity: Int { shared.capacity.value }

    /// Pushes a second that APNs has left this pool by ENHANCE_YOUR_CALM; `nil` where it was not told so. Any thread.
    public var brake: Int? {
        let limit = shared.brake.load(ordering: .relaxed)
        return limit > 0 ? limit : nil
    }

    /// Notifications that no session has taken yet. Any thread.
    public var waiting: Int { shared.queue.count }

    /// How old the provider token is that new requests carry; `nil` with a certificate, and before the first one. Any thread.
    public func providerTokenAge(now: Instant) -> Duration? { tokens.withLock { $0.source?.age(now: now) } }

    /// Queues notifications in order and leaves `batch` empty. Never blocks. Any thread.
    public func push(_ batch: inout [Notification]) { shared.queue.push(&batch) }

    /// Takes back what no session has taken yet: certainly not processed, and never reported.
    public func withdraw() -> [UInt64] { shared.queue.withdraw() }

    /// The pacer has other limits: sessions that wait for the old ones ask again at once.
    public func limitsChanged() { shared.queue.limitsChanged() }

    /// As `withdraw()`, of these alone.
    public func withdraw(_ ids: Set<UInt64>) -> [UInt64] { shared.queue.withdraw(ids) }

    /// Closes every session and dials anew: after a credential fault was mended, or to probe whether it was.
    ///
    /// What is in flight is heard out; the new dials do not wait for it, nor for any back-off.
    public func reconnect() { shared.messages.send(.reconnect) }

    /// Settings and credential, found to fit together: what remains to do with them cannot fail.
    public struct Setup: Sendable {
        fileprivate let configuration: PoolConfiguration

        public init(settings: PoolSettings, credential: Credential) throws(CredentialError) {
            configuration = try PoolConfiguration(settings: settings, credential: credential)
        }

        /// - Parameter roots: read already from `settings.extraRootsPath`, to be shared with other pools; `nil` reads them.
        package init(settings: PoolSettings, credential: Credential, roots: TLSRoots?) throws(CredentialError) {
            configuration = try PoolConfiguration(settings: settings, credential: credential, roots: roots)
        }
    }

    /// New settings and credential: new sessions come up before the old ones drain. The settings' host may differ.
    public func replace(with setup: Setup) {
        let configuration = setup.configuration
        tokens.withLock { $0.source = configuration.tokens }
        shared.replacement.withLock { $0.pending += 1 }
        shared.messages.send(.replace(configuration))
    }

    /// Whether a session speaks, or a dial that failed spoke, with the credential that is in use now. What an older one is
    /// refused for says nothing of that.
    public func usesPresentCredential(_ session: SessionID) -> Bool {
        shared.replacement.withLock { $0.pending == 0 && session > $0.lastOld }
    }

    /// What came of asking for another provider token.
    public enum TokenRenewal: Sendable, Equatable {
        /// There is a new one, and every session is being replaced: one that refused a token goes on refusing.
        case renewed
        /// The session that asks had an older token than the one in use now: send again.
        case alreadyRenewed
        /// It is the second time within the 20 minutes in which Apple wants no other: a clock must be wrong.
        case tooYoung
        /// A certificate speaks for this pool.
        case noSigningKey
    }

    /// After 403 `ExpiredProviderToken`: mints another token, unless that would be too soon, and reconnects.
    ///
    /// - Parameter session: the one that was refused. Hundreds are refused at once; only the first leads to a new token.
    public func renewToken(refusedOn session: SessionID? = nil) -> TokenRenewal {
        let known = session.flatMap { session in shared.sessionTokens.withLock { $0[session] } }
        let generation = known ?? shared.tokenGeneration.load(ordering: .relaxed)
        let renewal = tokens.withLock { tokens -> TokenRenewal in
            guard let source = tokens.source else { return .noSigningKey }
            if let session, session <= tokens.renewedAt { return .alreadyRenewed }
            let renewed = source.renew(after: generation)
            for news in source.takeNews() { shared.messages.send(.tokens(news)) }
            guard renewed != nil else { return .tooYoung }
            tokens.renewedAt = SessionNumbers.latest
            return .renewed
        }
        if renewal == .renewed { reconnect() }
        return renewal
    }

    /// After 429 `TooManyProviderTokenUpdates`: no other token is minted for 20 minutes, whoever asks.
    public func keepToken() { tokens.withLock { $0.source?.updatesRefused() } }

    /// Ends every session and joins their threads. What was on the wire is reported `maybeProcessed(.closedByUs)` before
    /// this returns; what still waited is returned.
    public func close() -> [UInt64] {
        if isClosed.exchange(true, ordering: .acquiringAndReleasing) { return [] }
        shared.messages.send(.close)
        thread.join()
        return shared.queue.withdraw()
    }
}
