import Threads

/// A thread that can be kept in an array.
final class Joined {
    private var thread: OwnedThread?

    init(_ body: @escaping @Sendable () -> Void) { thread = try! OwnedThread(name: "test", body: body) }

    func join() { thread.take()?.join() }
}
