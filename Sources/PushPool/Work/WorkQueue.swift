internal import Platform
internal import Synchronization

/// The lock around the queue of a pool, and the wake-ups that its changes cause. One lock serves a batch. Any thread.
final class WorkQueue: Sendable {
    let queue: Locked<PushQueue>
    /// Rung when a notification begins to wait while every session is full.
    private let blocked: WakeUp
    let clock: @Sendable () -> Instant
    /// A copy of the sending deadline, which sessions read without the lock: nanoseconds since `origin`; `Int.max` without one.
    private let sendingDeadline = Atomic<Int>(.max)
    private let origin: Instant
    private let fences = Atomic<Int>(0)

    /// - Parameter clock: the time with which the sending deadline and the limits are compared.
    init(
        rateLimits: SharedRateLimits = SharedRateLimits(), blocked: WakeUp = WakeUp(),
        clock: @escaping @Sendable () -> Instant = { .now }
    ) {
        origin = clock()
        queue = Locked(PushQueue(rateLimits: rateLimits, now: origin))
        self.blocked = blocked
        self.clock = clock
    }

    /// Changes the queue under the lock, then wakes the sessions that the change names, and the pool once all sessions are full.
    @inline(__always)
    private func change(_ body: (inout PushQueue) -> [WakeUp]) {
        let (wakeUps, isFull) = queue.withLock { queue in
            let wasBlocked = queue.wasBlocked
            let wakeUps = body(&queue)
            return (wakeUps, queue.wasBlocked && !wasBlocked)
        }
        if isFull { blocked.ring() }
        for wakeUp in wakeUps { wakeUp.ring() }
    }

    // MARK: For the pool

    /// Queues a batch in order and leaves it empty, with its memory.
    func push(_ batch: inout [Notification]) {
        if batch.isEmpty { return }
        change { $0.push(&batch, now: clock()) }
    }

    /// Lets sessions take notifications and write requests until this time; `nil` sets no limit.
    func allowSending(until deadline: Instant?) {
        change { queue in
            sendingDeadline.store(deadline.map(nanoseconds) ?? .max, ordering: .relaxed)
            return queue.allowSending(until: deadline, now: clock())
        }
    }

    private func nanoseconds(_ deadline: Instant) -> Int {
        let (seconds, attoseconds) = (deadline - origin).components
        let most = Int64.max / 2_000_000_000
        return Int(min(max(seconds, -most), most) * 1_000_000_000 + attoseconds / 1_000_000_000)
    }

    /// Whether the time for sending has ended. A session asks before it writes requests, without the lock.
    var isSendingOver: Bool {
        let deadline = sendingDeadline.load(ordering: .relaxed)
        return deadline != .max && origin + .nanoseconds(deadline) <= clock()
    }

    /// Stops requests that sessions have taken before and could not write: other workers may have their jobs. Call it after
    /// `withdraw`, so that a session that takes work with this number does not take what was withdrawn.
    func fence() { fences.add(1, ordering: .releasing) }

    /// The number of calls of `fence`. A session reads it before it takes work, and compares it before it writes.
    var fenceNumber: Int { fences.load(ordering: .acquiring) }

    /// Withdraws all waiting notifications.
    func withdraw() -> [UInt64] { queue.withLock { $0.withdraw(now: clock()) } }

    /// Withdraws those of `wanted` that wait; the others keep their order.
    func withdraw(_ wanted: Set<UInt64>) -> [UInt64] { queue.withLock { $0.withdraw(wanted, now: clock()) } }

    /// Wakes sessions that wait under limits which have changed.
    func limitsChanged() { change { $0.limitsChanged() } }

    /// Limits this pool alone to this many pushes per second; `nil` removes the limit.
    func limit(to pushesPerSecond: Int?) { change { $0.limit(to: pushesPerSecond, now: clock()) } }

    /// Sessions up to this one take nothing; `nil` lets all take again.
    func park(upTo session: SessionID?) { change { $0.park(upTo: session) } }

    /// The same as `limit(to:)`, by the owner of the pool.
    func limitOwn(to pushesPerSecond: Double?) { change { $0.limitOwn(to: pushesPerSecond, now: clock()) } }

    // MARK: For a session

    /// Removes a session and wakes others for the work it would have taken.
    func leave(_ session: SessionID) { change { $0.leave(session) } }

    /// Moves the session's share of the waiting notifications to `batch`. Returns the time at which the session must ask again,
    /// if so.
    ///
    /// - Parameter now: the time of the session's turn. Rate limits get the exact time.
    func take(into batch: Ring<Notification>, room: Room, for session: SessionID, now: Instant) -> Instant? {
        var again: Instant?
        change { queue in
            let taken = queue.take(into: batch, room: room, for: session, now: queue.isLimiting ? clock() : now)
            again = taken.again
            return taken.wakeUps
        }
        return again
    }
}

/// A first-in, first-out queue that moves its elements in and out without touching a reference count.
///
/// Not a `Deque` of swift-collections: that costs 700 instructions a push on the way through both queues, this one 160
/// (callgrind, release build); the difference is 3 % of a push. A ring is either inside a `Locked` or used by one thread only.
@safe final class Ring<Element: Sendable>: @unchecked Sendable {
    private var storage: UnsafeMutablePointer<Element>
    private var capacity: Int  // a power of two
    private var head = 0
    private(set) var count = 0

    init(capacity: Int = 256) {
        self.capacity = 1 << (Int.bitWidth - max(1, capacity - 1).leadingZeroBitCount)
        unsafe storage = .allocate(capacity: self.capacity)
    }

    deinit {
        for place in 0..<count { unsafe (storage + index(place)).deinitialize(count: 1) }
        unsafe storage.deallocate()
    }

    var isEmpty: Bool { count == 0 }

    func append(_ element: consuming Element) {
        if count == capacity { grow() }
        unsafe (storage + index(count)).initialize(to: element)
        count += 1
    }

    /// Appends all of `batch` in order and leaves it empty, with its memory.
    func append(contentsOf batch: inout [Element]) {
        while count + batch.count > capacity { grow() }
        var place = count + batch.count
        count = place
        // From the back: an array can move out its last element without a copy.
        while let element = batch.popLast() {
            place -= 1
            unsafe (storage + index(place)).initialize(to: element)
        }
    }

    /// Inserts an element before all others.
    func prepend(_ element: consuming Element) {
        if count == capacity { grow() }
        head = (head &+ capacity &- 1) & (capacity &- 1)
        unsafe (storage + head).initialize(to: element)
        count += 1
    }

    func popFirst() -> Element? {
        if count == 0 { return nil }
        let first = unsafe (storage + head).move()
        head = (head &+ 1) & (capacity &- 1)
        count -= 1
        return first
    }

    private func index(_ place: Int) -> Int { (head &+ place) & (capacity &- 1) }

    private func grow() {
        let larger = UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        let untilEnd = min(count, capacity - head)
        unsafe larger.moveInitialize(from: storage + head, count: untilEnd)
        unsafe (larger + untilEnd).moveInitialize(from: storage, count: count - untilEnd)
        unsafe storage.deallocate()
        unsafe storage = unsafe larger
        capacity *= 2
        head = 0
    }
}
