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
