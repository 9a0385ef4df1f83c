import Glibc
public import Platform
internal import Synchronization

/// A name server for tests. It answers with 127.0.0.1 while it is open, and otherwise hangs.
public final class SlowNames: Sendable {
    private let count = Atomic<Int>(0)
    private let hanging = Atomic<Int>(0)
    private let isOpen: Atomic<Bool>
    private let gate = WakeUp()

    public init(isOpen: Bool = false) { self.isOpen = Atomic(isOpen) }

    /// The lookups so far.
    public var lookups: Int { count.load(ordering: .relaxed) }

    /// Whether a lookup is waiting.
    public var isHanging: Bool { hanging.load(ordering: .acquiring) > 0 }

    public func lookUp(_ host: String, _ port: Int) -> NameResolver.Answer {
        count.add(1, ordering: .relaxed)
        hanging.add(1, ordering: .acquiringAndReleasing)
        defer { hanging.subtract(1, ordering: .acquiringAndReleasing) }
        var poller = Poller()
        while !isOpen.load(ordering: .acquiring) {
            poller.reset()
            poller.add(gate.descriptor, for: .read)
            poller.wait(until: nil)
        }
        return Result { () throws(SocketError) in try SocketAddress.resolve(host: "127.0.0.1", port: port) }
    }

    /// From now on it answers at once.
    public func open() {
        isOpen.store(true, ordering: .releasing)
        gate.ring()
    }

    /// From now on it hangs.
    public func close() {
        isOpen.store(false, ordering: .releasing)
        gate.listen()
    }
}
