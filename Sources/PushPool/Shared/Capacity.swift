internal import Synchronization

/// Streams that all open sessions of a pool can have open. Each session adds its own part and takes it away again.
final class Capacity: Sendable {
    private let sum = Atomic<Int>(0)

    var value: Int { sum.load(ordering: .relaxed) }

    func change(by difference: Int) {
        sum.add(difference, ordering: .relaxed)
    }
}

/// Numbers for sessions, over all pools of the process.
enum SessionNumbers {
    private static let last = Atomic<UInt64>(0)

    static func next() -> SessionID { SessionID(last.add(1, ordering: .relaxed).newValue) }

    /// The youngest there is.
    static var latest: SessionID { SessionID(last.load(ordering: .relaxed)) }
}
