/// A thread that several callers may join: the first caller joins it, the others wait until it has ended.
public final class JoinOnce: @unchecked Sendable {  // `thread` is accessed only under `lock`.
    private var thread: OwnedThread?
    private let lock = Locked(())
    private let joined = Locked(false)

    /// Whether the thread has been joined.
    public var isJoined: Bool { joined.withLock { $0 } }

    public init(_ thread: consuming OwnedThread) { self.thread = consume thread }

    public func join() {
        lock.withLock { _ in
            guard let thread = thread.take() else { return }
            thread.join()
            joined.withLock { $0 = true }
        }
    }
}
