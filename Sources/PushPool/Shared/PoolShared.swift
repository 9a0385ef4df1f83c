internal import Sockets
internal import Synchronization
import SystemTime
internal import Threads

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
    /// The number of new credentials that the pool's thread has not applied yet, and the newest session with an older one.
    let replacement = Locked((pending: 0, lastOld: SessionID(0)))
    /// The orders of the open sessions.
    let orders = Locked<[SessionID: Mailbox<SessionOrder>]>([:])
    let deliveries: Mailbox<Delivery>
    /// Messages to the pool's own thread, which the queue also wakes when every session is full.
    let messages: Mailbox<PoolMessage>

    init(
        deliveries: Mailbox<Delivery>, rateLimits: SharedRateLimits, resolver: NameResolver,
        clock: @escaping @Sendable () -> Instant = { .now }
    ) throws(ThreadError) {
        self.resolver = resolver
        self.deliveries = deliveries
        let wakeUp = try WakeUp(thread: "apns pool")
        messages = Mailbox(wakeUp: wakeUp)
        queue = WorkQueue(rateLimits: rateLimits, blocked: wakeUp, clock: clock)
    }
}
