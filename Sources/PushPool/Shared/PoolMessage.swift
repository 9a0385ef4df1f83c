internal import Sockets
internal import Synchronization
internal import Threads

/// What a pool's own thread is told, by its sessions and by the pool's owner.
enum PoolMessage: Sendable {
    case opened(SessionID, address: String, streams: Int)
    /// It takes no more; `hasServed`: at least one answer below 500 came over it.
    case retired(SessionID, hasServed: Bool)
    case capacityChanged
    /// The peer said ENHANCE_YOUR_CALM, for the first time on this session: pushes become fewer, and dials must wait, whatever it
    /// has served.
    case mustSlowDown(SessionID)
    case tokens(TokenNews)
    /// Its thread is about to end. Everything was reported, so many as perhaps processed because it broke.
    case ended(SessionID, address: String, SessionFault, hasServed: Bool, unanswered: Int)
    case dialFailed(SessionID, address: String, SessionFault)
    /// A dial was given up because we wanted it so.
    case dialAbandoned(SessionID)

    case reconnect
    case replace(PoolConfiguration)
    case close
}

/// What a session is told by its pool.
enum SessionOrder: Sendable {
    /// Take no more, hear out what is in flight, close.
    case drain
    /// Close now.
    case end
}

/// Settings and credential of one generation of sessions.
struct PoolConfiguration: Sendable {
    let settings: PoolSettings
    let tls: TLSContext
    /// `nil` where a client certificate speaks for us.
    let tokens: ProviderTokenSource?

    /// - Parameter roots: read already from `settings.extraRootsPath`; `nil` reads them.
    init(settings: PoolSettings, credential: Credential, roots: TLSRoots? = nil) throws(CredentialError) {
        self.settings = settings
        tokens = credential.tokens
        do throws(TLSFailure) {
            let trusted: TLSRoots
            if let roots { trusted = roots } else { trusted = try TLSRoots(bundle: settings.extraRootsPath) }
            tls = try TLSContext(clientTrusting: trusted, identity: credential.identity, protocols: ["h2"])
        } catch { throw CredentialError(error.description) }
    }

    /// `:authority`: the port is left out where it is the scheme's own (RFC 9110, 4.2.3).
    var authority: String {
        let host = settings.host.contains(":") ? "[\(settings.host)]" : settings.host
        return settings.port == 443 ? host : "\(host):\(settings.port)"
    }

    /// A session makes room for all its streams at once, so a careless setting must not cost the memory of the machine.
    static let mostStreams = 65_536

    /// Our own ceiling on a session's open streams, 0 to `mostStreams`.
    var streams: Int { max(0, min(settings.maxConcurrentStreams, PoolConfiguration.mostStreams)) }

    var limits: SessionMachine.Limits {
        SessionMachine.Limits(
            requestTimeout: settings.requestTimeout, keepAlive: settings.keepAlive,
            busyKeepAlive: settings.busyKeepAlive, pingTimeout: settings.pingTimeout,
            maxConcurrentStreams: streams, maxRequests: settings.requestsPerSession)
    }
}

/// What all sessions of a pool share.
final class PoolShared: Sendable {
    let queue: WorkQueue
    let capacity = Capacity()
    /// Pushes a second that ENHANCE_YOUR_CALM has left the pool; 0 where it was not told so.
    let brake = Atomic<Int>(0)
    let addresses = Locked(AddressBook())
    let resolver: Resolver
    /// The provider token that the youngest session opened with.
    let tokenGeneration = Atomic<UInt64>(0)
    /// The provider token that each open session pushes with: what a refusal is about. An old one is no reason to sign another
    /// where there is a younger one already.
    let sessionTokens = Locked<[SessionID: UInt64]>([:])
    /// How many new credentials the pool's thread has not seen yet, and the youngest session that has an older one.
    let replacement = Locked((pending: 0, lastOld: SessionID(0)))
    let deliveries: Mailbox<Delivery>
    /// For the pool's own thread, which the queue rings as well when every session is full.
    let messages: Mailbox<PoolMessage>

    init(deliveries: Mailbox<Delivery>, pacer: SharedPacer, resolver: Resolver) {
        self.resolver = resolver
        self.deliveries = deliveries
        let wakeUp = WakeUp()
        messages = Mailbox(wakeUp: wakeUp)
        queue = WorkQueue(pacer: pacer, blocked: wakeUp)
    }
}

/// What one session's thread gets.
struct SessionContext: Sendable {
    let id: SessionID
    /// One before it broke (`SessionMachine.Limits.startsSlowly`).
    let startsSlowly: Bool
    let configuration: PoolConfiguration
    let shared: PoolShared
    let orders: Mailbox<SessionOrder>
    /// Rings for orders and for work.
    let wakeUp: WakeUp

    /// Of a session on this address, for people.
    func name(of address: SocketAddress) -> String {
        let settings = configuration.settings
        return settings.proxy == nil ? address.description : "\(settings.host):\(settings.port) through the proxy \(address)"
    }

    /// Tells the pool's owner what became of provider tokens.
    func report(_ tokens: ProviderTokenSource) {
        for news in tokens.takeNews() { shared.messages.send(.tokens(news)) }
    }
}
