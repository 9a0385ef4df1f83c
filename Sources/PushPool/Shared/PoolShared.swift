internal import Synchronization
internal import Threads

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

    init(deliveries: Mailbox<Delivery>, pacer: SharedRateLimits, resolver: Resolver) {
        self.resolver = resolver
        self.deliveries = deliveries
        let wakeUp = WakeUp()
        messages = Mailbox(wakeUp: wakeUp)
        queue = WorkQueue(pacer: pacer, blocked: wakeUp)
    }
}
