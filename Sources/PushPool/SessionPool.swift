public import Threads

/// A fixed number of HTTP/2 sessions to APNs for one app, each on its own thread.
///
/// Notifications go into one queue from which every session takes as many as it has free streams: work reaches whichever
/// session can carry it, and what no session has taken can be withdrawn. The queue has no bound of its own: its one owner
/// keeps what it has pushed and not got back within `capacity` and a batch.
public final class SessionPool: Sendable {
    /// - Parameters:
    ///   - deliveries: gets every attempt's end, in batches.
    ///   - events: gets the pool's other news.
    public init(
        settings: PoolSettings, credential: Credential, deliveries: Mailbox<Delivery>, events: Mailbox<PoolEvent>
    ) throws(CredentialError) { fatalError("written by the pool's author") }

    /// Streams that the open sessions can have open in all, from the peers' SETTINGS. 0 while none is open. Any thread.
    public var capacity: Int { fatalError() }

    /// Queues notifications in order and leaves `batch` empty. Never blocks. Any thread.
    public func push(_ batch: inout [Notification]) { fatalError() }

    /// Takes back what no session has taken yet: certainly not processed, and never reported.
    public func withdraw() -> [UInt64] { fatalError() }

    /// As `withdraw()`, of these alone.
    public func withdraw(_ ids: Set<UInt64>) -> [UInt64] { fatalError() }

    /// Closes every session and dials anew: after a credential fault was mended, or to probe whether it was.
    public func reconnect() { fatalError() }

    /// New settings and credential: new sessions come up before the old ones drain. The settings' host may differ.
    public func replace(settings: PoolSettings, credential: Credential) throws(CredentialError) { fatalError() }

    /// Ends every session and joins their threads. What was on the wire is reported `maybeProcessed(.closedByUs)` before
    /// this returns; what still waited is returned.
    public func close() -> [UInt64] { fatalError() }
}
