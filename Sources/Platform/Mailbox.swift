import CLinux
import Glibc

/// A queue into one thread. Senders pass whole batches: one lock per batch, and one wake-up only if the queue was empty.
///
/// The queue itself is unbounded: its senders keep a bound (a pool never holds more than its credit), so that a send never
/// blocks.
public final class Mailbox<Element: Sendable>: Sendable {
    @usableFromInline let waiting = Locked<[Element]>([])
    @usableFromInline let wakeUp: WakeUp

    /// - Parameter wakeUp: for this mailbox alone. `drain` resets it, and the next wake-up follows only when an element meets an
    ///   empty queue: a second mailbox would lose it.
    public init(wakeUp: WakeUp = WakeUp()) {
        self.wakeUp = wakeUp
    }

    /// Throws if no descriptor is free.
    ///
    /// - Parameter name: of the thread that receives.
    public convenience init(thread name: String) throws(ThreadError) { self.init(wakeUp: try WakeUp(thread: name)) }

    /// Readable while elements wait. The receiver sleeps on it.
    public var wakeDescriptor: CInt { wakeUp.descriptor }

    @inlinable
    public func send(_ element: Element) {
        let wasEmpty = waiting.withLock { waiting in
            waiting.append(element)
            return waiting.count == 1
        }
        if wasEmpty { wakeUp.ring() }
    }

    /// Sends `batch` in order and leaves it empty, with its memory.
    @inlinable
    public func send(contentsOf batch: inout [Element]) {
        if batch.isEmpty { return }
        let wasEmpty = waiting.withLock { waiting in
            defer { batch.removeAll(keepingCapacity: true) }
            if waiting.isEmpty {
                swap(&waiting, &batch)
                return true
            }
            waiting.append(contentsOf: batch)
            return false
        }
        if wasEmpty { wakeUp.ring() }
    }

    /// Moves all waiting elements, oldest first, to `batch`, whose previous content is removed and whose memory is reused.
    @inlinable
    public func drain(into batch: inout [Element]) {
        batch.removeAll(keepingCapacity: true)
        wakeUp.listen()
        waiting.withLock { swap(&$0, &batch) }
    }

    @inlinable
    public func drain() -> [Element] {
        var batch: [Element] = []
        drain(into: &batch)
        return batch
    }
}

/// An eventfd: any thread rings it, and one thread sleeps on its descriptor.
public final class WakeUp: Sendable {
    /// Readable from a ring until the next `listen`.
    public let descriptor: CInt

    public init() {
        descriptor = eventfd(0, CInt(EFD_NONBLOCK) | CInt(EFD_CLOEXEC))
        precondition(descriptor >= 0, "no eventfd: errno \(errno); raise the limit of open files (ulimit -n)")
    }

    /// Throws if no descriptor is free.
    ///
    /// - Parameter name: of the thread that sleeps on it.
    public convenience init(thread name: String) throws(ThreadError) {
        let descriptor = eventfd(0, CInt(EFD_NONBLOCK) | CInt(EFD_CLOEXEC))
        guard descriptor >= 0 else { throw ThreadError(name: name, code: errno) }
        self.init(descriptor)
    }

    /// Returns `nil` if fewer than `spare` descriptors are left beside it.
    ///
    /// - Parameter spare: descriptors that must stay free.
    public static func ifAvailable(sparing spare: Int) -> WakeUp? {
        let descriptor = eventfd(0, CInt(EFD_NONBLOCK) | CInt(EFD_CLOEXEC))
        guard descriptor >= 0 else { return nil }
        if isFree(spare) { return WakeUp(descriptor) }
        close(descriptor)
        return nil
    }

    /// Whether this many descriptors are free. It opens none, because that could take the last ones from another thread.
    private static func isFree(_ count: Int) -> Bool {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return true }
        // The lowest number is allocated first (open(2)): used descriptors lie at the front, so that the search ends soon
        // after them.
        return hasFree(count, among: 0..<CInt(clamping: limit.rlim_cur)) { fcntl($0, F_GETFD) == -1 }
    }

    static func hasFree(_ count: Int, among numbers: some Sequence<CInt>, isFree: (CInt) -> Bool) -> Bool {
        var free = 0
        for number in numbers {
            if free >= count { break }
            if isFree(number) { free += 1 }
        }
        return free >= count
    }

    private init(_ descriptor: CInt) { self.descriptor = descriptor }

    deinit { close(descriptor) }

    /// Wakes the sleeper; several rings wake it once.
    public func ring() {
        eventfd_write(descriptor, 1)
    }

    /// Resets the descriptor. Call it before handling the reason for the ring.
    public func listen() {
        var count: eventfd_t = 0
        unsafe eventfd_read(descriptor, &count)
    }
}
