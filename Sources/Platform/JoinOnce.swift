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
