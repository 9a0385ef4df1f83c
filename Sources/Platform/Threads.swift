import CLinux
import Glibc

/// A thread with an owner that joins it. Everything it works on is made, used and freed inside its body.
///
/// The body is `@Sendable`, so that only values that may cross threads enter it.
public struct OwnedThread: ~Copyable {
    private final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    private let handle: pthread_t

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - name: shown by `ps -L` and debuggers; cut to the 15 bytes that Linux keeps.
    ///   - stackBytes: 512 KiB by default; the loops are shallow, and OpenSSL needs less than a quarter of it.
    /// - Throws: `ThreadError` if a limit of threads or memory is reached.
    public init(name: String, stackBytes: Int = 512 << 10, body: @escaping @Sendable () -> Void) throws(ThreadError) {
        var attributes = pthread_attr_t()
        unsafe pthread_attr_init(&attributes)
        unsafe pthread_attr_setstacksize(&attributes, stackBytes)
        defer { unsafe pthread_attr_destroy(&attributes) }
        var thread = pthread_t()
        let context = unsafe Unmanaged.passRetained(Body(body)).toOpaque()
        let status = unsafe pthread_create(&thread, &attributes, OwnedThread.enter, context)
        guard status == 0 else {
            unsafe Unmanaged<Body>.fromOpaque(context).release()
            throw ThreadError(name: name, code: status)
        }
        handle = thread
        unsafe pthread_setname_np(thread, String(decoding: name.utf8.prefix(15), as: UTF8.self))
    }

    /// Waits until the body has returned. An owner calls either this or `leave()`, exactly once; otherwise the stack leaks.
    public consuming func join() {
        pthread_join(handle, nil)
    }

    /// Detaches the thread: only for one that may be stuck in an uninterruptible call and owns nothing that others wait for.
    public consuming func leave() {
        pthread_detach(handle)
    }

    private static let enter: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { context in
        guard let context = unsafe context else { return nil }
        // OpenSSL writes with plain write(2): on a broken connection it must return EPIPE and not end the process.
        var pipe = sigset_t()
        unsafe sigemptyset(&pipe)
        unsafe sigaddset(&pipe, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &pipe, nil)
        unsafe Unmanaged<Body>.fromOpaque(context).takeRetainedValue().run()
        return nil
    }
}

/// A thread that several callers may join: the first caller joins it, the others wait until it has ended.
public final class JoinOnce: @unchecked Sendable {  // `thread` is accessed only under `lock`.
    private var thread: OwnedThread?
    private let lock = Locked(())
    private let joined = Locked(false)
    /// Rung when the body has returned; `nil` for a thread that was started elsewhere.
    private let finished: WakeUp?

    /// Whether the thread has been joined.
    public var isJoined: Bool { joined.withLock { $0 } }

    public init(_ thread: consuming OwnedThread) {
        self.thread = consume thread
        finished = nil
    }

    /// Starts a thread, which `join(atMost:)` can join.
    public init(name: String, body: @escaping @Sendable () -> Void) throws(ThreadError) {
        let finished = try WakeUp(thread: name)
        self.finished = finished
        thread = try OwnedThread(name: name) {
            body()
            finished.ring()
        }
    }

    /// Without an owner, the thread ends by itself.
    deinit { thread.take()?.leave() }

    public func join() {
        lock.withLock { _ in
            guard let thread = thread.take() else { return }
            thread.join()
            joined.withLock { $0 = true }
        }
    }

    /// Joins the thread if its body returns within `limit`. A thread that hangs in a system call is left to end with the process.
    public func join(atMost limit: Duration) {
        guard let finished else { return join() }
        let deadline = Instant.now + limit
        var poller = Poller()
        let place = poller.add(finished.descriptor, for: .read)
        repeat { poller.wait(until: deadline) } while !poller.readiness(at: place).contains(.read) && .now < deadline
        if poller.readiness(at: place).contains(.read) { join() }
    }
}

/// A thread could not be started: a limit of threads (`ulimit -u`, TasksMax of systemd, pids.max), of memory, or of open files,
/// because it sleeps on a descriptor, is reached.
public struct ThreadError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The name of the thread.
    public var name: String
    /// The errno value, usually EAGAIN (pthread_create(3)).
    public var code: CInt

    public init(name: String, code: CInt) { (self.name, self.code) = (name, code) }

    public var description: String {
        let limit =
            [EMFILE, ENFILE].contains(code)
            ? "the limit of open files, ulimit -n" : "a limit of threads, ulimit -u or TasksMax, or of memory"
        return unsafe "no thread for \"\(name)\": \(String(cString: strerror(code))) (\(limit))"
    }
}

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

/// Sleeps until a descriptor is ready or a deadline passes: poll(2), for the few descriptors of one thread.
public struct Poller {
    /// The events to wait for on one descriptor and, after `wait`, the events that occurred.
    public struct Readiness: OptionSet, Sendable {
        public let rawValue: Int16
        public init(rawValue: Int16) { self.rawValue = rawValue }

        public static let read = Readiness(rawValue: Int16(POLLIN))
        public static let write = Readiness(rawValue: Int16(POLLOUT))
        /// The peer hung up or the descriptor failed. Always reported, never requested: reading tells which.
        public static let broken = Readiness(rawValue: Int16(POLLERR | POLLHUP | POLLNVAL))
    }

    private var descriptors: [pollfd] = []

    public init() {}

    /// Removes all descriptors.
    public mutating func reset() {
        descriptors.removeAll(keepingCapacity: true)
    }

    /// Adds a descriptor. Returns its place for `readiness(at:)`.
    @discardableResult
    public mutating func add(_ descriptor: CInt, for interest: Readiness) -> Int {
        descriptors.append(pollfd(fd: descriptor, events: interest.rawValue, revents: 0))
        return descriptors.count - 1
    }

    /// Returns when a descriptor is ready, at `deadline`, or after a signal. `nil` waits forever.
    ///
    /// - Parameter now: the present, if the caller knows it.
    public mutating func wait(until deadline: Instant?, now: @autoclosure () -> Instant = .now) {
        var timeout = timespec()
        let status: CInt
        if let deadline {
            let left = max(.zero, deadline - now()).components
            timeout.tv_sec = Int(left.seconds)
            timeout.tv_nsec = Int(left.attoseconds / 1_000_000_000)
            status = unsafe ppoll(&descriptors, nfds_t(descriptors.count), &timeout, nil)
        } else {
            status = unsafe ppoll(&descriptors, nfds_t(descriptors.count), nil, nil)
        }
        if status <= 0 {
            for index in descriptors.indices { descriptors[index].revents = 0 }
        }
    }

    /// Waits for a time. A signal does not end it.
    public static func sleep(_ time: Duration) {
        let end = Instant.now + time
        var poller = Poller()
        while .now < end { poller.wait(until: end) }
    }

    public func readiness(at place: Int) -> Readiness {
        Readiness(rawValue: descriptors[place].revents)
    }
}
