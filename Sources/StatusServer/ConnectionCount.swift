import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization

/// How many connections are open now.
final class ConnectionCount: Sendable {
    private let count = Atomic<Int>(0)

    func opened() -> Int { count.add(1, ordering: .relaxed).newValue }
    func closed() { count.subtract(1, ordering: .relaxed) }
}
