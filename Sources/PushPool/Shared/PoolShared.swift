internal import Platform
internal import Synchronization

/// The state that all sessions of a pool share.
final class PoolShared: Sendable {
    let queue: WorkQueue
    let capacity = Capacity()
    /// The limit in pushes per second that ENHANCE_YOUR_CALM caused; 0 for none.
    let calmLimit = Atomic<Int>(0)
    let addresses = Locked(AddressBook())
    let resolver: NameResolver
    /// The generation of the provider token that the newest session opened with.
    let tokenGeneration = Atomic<UInt64>(0)
    let sessionTokens = Locked(SessionTokens())
    let credentials = Locked(CredentialUse())
    /// The source of provider tokens, `nil` with a certificate, and the newest session at the last renewal.
    let tokens: Locked<(source: ProviderTokenSource?, renewedAt: SessionID)>
    /// The orders of the open sessions.
    let orders = Locked<[SessionID: Mailbox<SessionOrder>]>([:])
    let deliveries: Mailbox<Delivery>
    /// Messages to the pool's own thread, which the queue also wakes when every session is full.
    let messages: Mailbox<PoolMessage>

    init(
        deliveries: Mailbox<Delivery>, rateLimits: SharedRateLimits, resolver: NameResolver,
        tokens: ProviderTokenSource? = nil, clock: @escaping @Sendable () -> Instant = { .now }
    ) throws(ThreadError) {
        self.resolver = resolver
        self.deliveries = deliveries
        self.tokens = Locked((tokens, SessionID(0)))
        let wakeUp = try WakeUp(thread: "apns pool")
        messages = Mailbox(wakeUp: wakeUp)
        queue = WorkQueue(rateLimits: rateLimits, blocked: wakeUp, clock: clock)
    }
}
