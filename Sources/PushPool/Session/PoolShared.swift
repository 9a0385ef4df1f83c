import DequeModule
internal import Platform
internal import Synchronization

/// The state that all sessions of a pool share.
final class PoolShared: Sendable {
    let work: WorkQueue
    /// The streams that all open sessions may have open. Each session adds and removes its own part.
    let capacity = Atomic<Int>(0)
    /// The limit in pushes per second that ENHANCE_YOUR_CALM caused; 0 for none.
    let calmLimit = Atomic<Int>(0)
    /// Whether the pool's thread has ended all sessions.
    let isDone = Atomic<Bool>(false)
    let addresses = Locked(AddressBook())
    let resolver: NameResolver
    /// The generation of the provider token that the newest session opened with.
    let tokenGeneration = Atomic<UInt64>(0)
    let sessionTokens = Locked(SessionTokens())
    /// Sessions of an earlier pool of the same owner do not present the credential of this one.
    let credentials = Locked(CredentialUse(after: SessionNumbers.latest))
    /// The topic of the newest settings that are in use or on trial.
    let topic: Locked<String?>
    /// The source of provider tokens, `nil` with a certificate, and the newest session at the last renewal.
    let tokens: Locked<(source: ProviderTokenSource?, renewedAt: SessionID)>
    /// The orders of the open sessions.
    let orders = Locked<[SessionID: Mailbox<SessionOrder>]>([:])
    let deliveries: Mailbox<Delivery>
    /// Messages to the pool's own thread, which the queue also wakes when every session is full.
    let messages: Mailbox<PoolMessage>

    init(
        deliveries: Mailbox<Delivery>, rateLimits: SharedRateLimits, resolver: NameResolver,
        tokens: ProviderTokenSource? = nil, topic: String? = nil, clock: @escaping @Sendable () -> Instant = { .now }
    ) throws(ThreadError) {
        self.resolver = resolver
        self.deliveries = deliveries
        self.topic = Locked(topic)
        self.tokens = Locked((tokens, SessionID(0)))
        let wakeUp = try WakeUp(thread: "apns pool")
        messages = Mailbox(wakeUp: wakeUp)
        work = WorkQueue(rateLimits: rateLimits, blocked: wakeUp, clock: clock)
    }
}

/// A message to the pool's own thread, from its sessions or its owner.
enum PoolMessage: Sendable {
    case opened(SessionID, address: String, streams: Int)
    /// The session accepts no more work. `hasServed`: at least one of its responses had a status below 500.
    case retired(SessionID, hasServed: Bool)
    case capacityChanged
    /// The session received its first ENHANCE_YOUR_CALM: the pool lowers its rate and delays its dials.
    case mustSlowDown(SessionID)
    case tokens(TokenNews)
    /// APNs has accepted a push with the credential of the session, or only rejected a device token; or it has refused the
    /// credential with this response.
    case proved(SessionID, isAcceptance: Bool)
    case refused(SessionID, String)
    /// The session's thread is about to end. All attempts are reported, `unanswered` of them as maybe processed.
    case ended(SessionID, address: String, SessionError, hasServed: Bool, unanswered: Int)
    case dialFailed(SessionID, address: String, SessionError)
    /// A dial ended because the pool ordered it.
    case dialAbandoned(SessionID)

    case reconnect
    case retire(SessionID)
    case replace(PoolConfiguration)
    case finish
    case close
}

/// An order from the pool to one of its sessions.
enum SessionOrder: Sendable {
    /// Accept no more work, wait for the open streams, then close.
    case drain
    /// Close immediately.
    case end
    /// Reset the streams of these notifications. Only for open sessions: a dial ends at any order.
    case cancel(Set<UInt64>)
}

/// The input of one session's thread.
struct SessionContext: Sendable {
    let id: SessionID
    /// Whether a previous session broke (`SessionMachine.Limits.startsSlowly`).
    let startsSlowly: Bool
    let configuration: PoolConfiguration
    let shared: PoolShared
    let orders: Mailbox<SessionOrder>
    /// Rung for orders and for work.
    let wakeUp: WakeUp

    /// Returns the name of a session on this address, for logs.
    func name(of address: SocketAddress) -> String {
        let settings = configuration.settings
        return settings.proxy == nil ? address.description : "\(settings.host):\(settings.port) through the proxy \(address)"
    }

    /// Forwards news of provider tokens to the pool's owner.
    func report(_ tokens: ProviderTokenSource) {
        for news in tokens.takeNews() { shared.messages.send(.tokens(news)) }
    }
}

/// The settings and the credential of one generation of sessions.
struct PoolConfiguration: Sendable {
    let settings: PoolSettings
    let tls: TLSContext
    /// `nil` with a client certificate.
    let tokens: ProviderTokenSource?

    /// - Parameter roots: the roots read from `settings.extraRootsPath`; `nil` reads them.
    init(settings: PoolSettings, credential: Credential, roots: TLSRoots? = nil) throws(CredentialError) {
        self.settings = settings
        tokens = credential.tokens
        do throws(TLSError) {
            let trusted: TLSRoots
            if let roots { trusted = roots } else { trusted = try TLSRoots(bundle: settings.extraRootsPath) }
            tls = try TLSContext(clientTrusting: trusted, identity: credential.identity, protocols: ["h2"])
        } catch { throw CredentialError(error.description) }
    }

    /// The value of `:authority`, without the scheme's default port (RFC 9110, 4.2.3).
    var authority: String {
        let host = settings.host.contains(":") ? "[\(settings.host)]" : settings.host
        return settings.port == 443 ? host : "\(host):\(settings.port)"
    }

    /// A session allocates memory for all its streams, so a limit protects the machine's memory.
    static let mostStreams = 65_536

    /// Our own limit on a session's open streams, 0 to `mostStreams`.
    var streams: Int { max(0, min(settings.maxConcurrentStreams, PoolConfiguration.mostStreams)) }
}

/// Assigns session ids across all pools of the process.
enum SessionNumbers {
    private static let last = Atomic<UInt64>(0)

    static func next() -> SessionID { SessionID(last.add(1, ordering: .relaxed).newValue) }

    /// The id that was assigned last.
    static var latest: SessionID { SessionID(last.load(ordering: .relaxed)) }
}

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
