public import Platform
internal import Synchronization

/// The HTTP/2 sessions to APNs of one app, each on its own thread: a fixed number, or as many as the load requires.
///
/// Notifications go into one queue. Each session takes as many as its streams, its send windows and its socket admit, and a
/// notification that no session has taken can be withdrawn. The queue is unbounded: the owner limits the notifications without an
/// outcome to `capacity` plus one batch.
public final class SessionPool: Sendable {
    private let shared: PoolShared
    private let thread: JoinOnce
    private let isStopped = Atomic<Bool>(false)
    private let isClosed = Atomic<Bool>(false)

    /// Starts dialling at once.
    ///
    /// - Parameters:
    ///   - deliveries: receives the outcome of every attempt, in batches.
    ///   - events: receives all other events of the pool.
    ///   - rateLimits: the rate limits that all pools of the daemon share; by default none.
    /// - Throws: `CredentialError`, or `ThreadError` if no thread can be started.
    public convenience init(
        settings: PoolSettings, credential: Credential, deliveries: Mailbox<Delivery>, events: Mailbox<PoolEvent>,
        rateLimits: SharedRateLimits? = nil
    ) throws {
        try self.init(
            Setup(settings: settings, credential: credential), deliveries: deliveries, events: events,
            rateLimits: rateLimits ?? SharedRateLimits(leaseWanted: WakeUp(thread: "apns pool")))
    }

    /// Starts dialling with a setup that was prepared earlier.
    public convenience init(
        _ setup: Setup, deliveries: Mailbox<Delivery>, events: Mailbox<PoolEvent>,
        rateLimits: SharedRateLimits = SharedRateLimits()
    ) throws(ThreadError) {
        try self.init(
            setup.configuration, deliveries: deliveries, events: events, rateLimits: rateLimits,
            resolver: NameResolver(thread: "apns names"))
    }

    /// For an owner of many pools.
    ///
    /// - Parameter report: takes all other events of the pool, on its thread.
    package convenience init(
        _ setup: Setup, deliveries: Mailbox<Delivery>, rateLimits: SharedRateLimits,
        report: @escaping @Sendable (PoolEvent) -> Void
    ) throws(ThreadError) {
        try self.init(
            setup.configuration, deliveries: deliveries, rateLimits: rateLimits, resolver: NameResolver(thread: "apns names"),
            report: report)
    }

    convenience init(
        _ configuration: PoolConfiguration, deliveries: Mailbox<Delivery>, events: Mailbox<PoolEvent>,
        rateLimits: SharedRateLimits = SharedRateLimits(), resolver: NameResolver
    ) throws(ThreadError) {
        try self.init(configuration, deliveries: deliveries, rateLimits: rateLimits, resolver: resolver) { events.send($0) }
    }

    private init(
        _ configuration: PoolConfiguration, deliveries: Mailbox<Delivery>, rateLimits: SharedRateLimits, resolver: NameResolver,
        report: @escaping @Sendable (PoolEvent) -> Void
    ) throws(ThreadError) {
        let shared = try PoolShared(
            deliveries: deliveries, rateLimits: rateLimits, resolver: resolver, tokens: configuration.tokens,
            topic: configuration.settings.topic)
        self.shared = shared
        thread = try JoinOnce(name: "apns pool") {
            var loop = PoolLoop(configuration, shared, report: report)
            loop.run()
            shared.isDone.store(true, ordering: .releasing)
        }
    }

    /// Orders the sessions to end without waiting for them: only `close` waits.
    deinit { stop() }

    /// Streams that the open sessions may have open in total, from the peers' SETTINGS; 0 while no session is open. Any
    /// thread.
    public var capacity: Int { shared.capacity.load(ordering: .relaxed) }

    /// The limit in pushes per second that ENHANCE_YOUR_CALM caused; `nil` without one. Any thread.
    public var calmLimit: Int? {
        let limit = shared.calmLimit.load(ordering: .relaxed)
        return limit > 0 ? limit : nil
    }

    /// The number of notifications that no session has taken. Any thread.
    public var waiting: Int { shared.work.queue.withLock { $0.count } }

    /// The measurements of the open sessions. Any thread.
    public var figures: PoolFigures { shared.work.queue.withLock { $0.figures(now: .now) } }

    /// The age of the current provider token; `nil` with a certificate and before the first token. Any thread.
    public func providerTokenAge(now: Instant) -> Duration? { shared.tokens.withLock { $0.source?.age(now: now) } }

    /// Queues notifications in order and leaves `batch` empty. Never blocks. Any thread.
    public func push(_ batch: inout [Notification]) { shared.work.push(&batch) }

    /// Lets sessions take notifications until this time: a session checks it before each take. Call it again to extend the time,
    /// for example with every renewal of a lease. `nil` sets no limit, as before the first call. Any thread.
    public func allowSending(until deadline: Instant?) { shared.work.allowSending(until: deadline) }

    /// Withdraws all notifications that no session has taken. They are certainly not processed and are never reported.
    public func withdraw() -> [UInt64] { shared.work.withdraw() }

    /// Wakes sessions that wait under rate limits which have changed.
    public func limitsChanged() { shared.work.limitsChanged() }

    /// Limits this pool alone to this many pushes per second, beside the limits of all pools; `nil` removes the limit. Any
    /// thread.
    public func limit(toPushesPerSecond limit: Double?) { shared.work.limitOwn(to: limit) }

    /// Ends the sessions with requests that they have taken before and could not write: these are certainly not processed, and
    /// reported as such. Call it after `withdraw` when other processes may send the notifications. Any thread.
    public func fence() { shared.work.fence() }

    /// Withdraws those of `ids` that no session has taken.
    public func withdraw(_ ids: Set<UInt64>) -> [UInt64] { shared.work.withdraw(ids) }

    /// Withdraws those of `ids` that no session has taken, and returns them: they are never reported. Resets the streams of the
    /// others, which are reported as usual.
    public func cancel(_ ids: Set<UInt64>) -> [UInt64] {
        let withdrawn = shared.work.withdraw(ids)
        if withdrawn.count < ids.count {
            shared.orders.withLock { for orders in $0.values { orders.send(.cancel(ids)) } }
        }
        return withdrawn
    }

    /// Replaces every session: after a credential fault was fixed, or to probe whether it was.
    ///
    /// Old sessions wait for their open streams; the new dials wait neither for them nor for any backoff.
    public func reconnect() { shared.messages.send(.reconnect) }

    /// Gives no more work to a session whose credential is refused, if its credential was replaced or is on trial.
    public func retire(_ session: SessionID) { shared.messages.send(.retire(session)) }

    /// Settings and a credential that have been checked together: using them cannot fail.
    public struct Setup: Sendable {
        fileprivate let configuration: PoolConfiguration

        public init(settings: PoolSettings, credential: Credential) throws(CredentialError) {
            configuration = try PoolConfiguration(settings: settings, credential: credential)
        }

        /// - Parameter roots: the roots read from `settings.extraRootsPath`, to share them with other pools; `nil` reads them.
        package init(settings: PoolSettings, credential: Credential, roots: TLSRoots?) throws(CredentialError) {
            configuration = try PoolConfiguration(settings: settings, credential: credential, roots: roots)
        }
    }

    /// Applies new settings and a new credential. The host may differ.
    ///
    /// If APNs has accepted the present credential, the new one is on trial: the old sessions drain when APNs has accepted the
    /// new credential. If APNs refuses it, the pool reports `PoolEvent.credentialRefused` and returns to the previous settings
    /// and credential. Otherwise new sessions open before the old ones drain.
    public func replace(with setup: Setup) {
        let configuration = setup.configuration
        shared.tokens.withLock { $0.source = configuration.tokens }
        shared.credentials.withLock { $0.request() }
        // A push has the topic of the settings of its session. From now on that is the new one.
        let topic = configuration.settings.topic
        let isOther = shared.topic.withLock { known in
            defer { known = topic }
            return known != topic
        }
        if isOther { shared.work.park(upTo: SessionNumbers.latest) }
        shared.messages.send(.replace(configuration))
    }

    /// Whether a session, or a failed dial, uses the current credential. A rejection of an older credential says nothing about
    /// the current one. While a credential is on trial, no session does.
    public func usesPresentCredential(_ session: SessionID) -> Bool {
        shared.credentials.withLock { $0.isPresent(session) }
    }

    /// The result of a request for another provider token.
    public enum TokenRenewal: Sendable, Equatable {
        /// There is a new token, and every session is being replaced: a session that refused a token keeps refusing.
        case renewed
        /// The session had an older token than the current one: resend.
        case alreadyRenewed
        /// This is the second renewal within the 20 minutes in which Apple accepts none: a clock must be wrong.
        case tooYoung
        /// The pool authenticates with a certificate.
        case noSigningKey
    }

    /// Signs another token after 403 `ExpiredProviderToken`, unless it is too soon, and reconnects.
    ///
    /// - Parameter session: the session that was refused. Hundreds are refused at once; only the first causes a new token.
    public func renewToken(refusedOn session: SessionID? = nil) -> TokenRenewal {
        let known = session.flatMap { session in shared.sessionTokens.withLock { $0[session] } }
        let generation = known ?? shared.tokenGeneration.load(ordering: .relaxed)
        let renewal = shared.tokens.withLock { tokens -> TokenRenewal in
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

    /// Signs no other token for 20 minutes, after 429 `TooManyProviderTokenUpdates`.
    public func keepToken() { shared.tokens.withLock { $0.source?.updatesRefused() } }

    /// Orders every session to end, without waiting for them. `close` waits.
    public func stop() {
        if !isStopped.exchange(true, ordering: .acquiringAndReleasing) { shared.messages.send(.close) }
    }

    /// Lets every session wait for its open streams and then end. Call `withdraw` before: no session takes work any more.
    package func finish() { shared.messages.send(.finish) }

    /// Whether all sessions have ended after `finish` or `stop`.
    package var isDone: Bool { shared.isDone.load(ordering: .acquiring) }

    /// Ends every session and joins their threads. Attempts on the wire are reported `maybeProcessed(.closedByUs)` before this
    /// returns. Returns the notifications that still waited.
    ///
    /// - Parameter limit: the longest wait. A thread that is stuck is left to end with the process, and its attempts may stay
    ///   unreported.
    public func close(atMost limit: Duration = .seconds(60)) -> [UInt64] {
        stop()
        if isClosed.exchange(true, ordering: .acquiringAndReleasing) { return [] }
        thread.join(atMost: limit)
        return shared.work.withdraw()
    }
}
