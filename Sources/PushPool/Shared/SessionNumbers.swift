internal import Synchronization

/// Assigns session ids across all pools of the process.
enum SessionNumbers {
    private static let last = Atomic<UInt64>(0)

    static func next() -> SessionID { SessionID(last.add(1, ordering: .relaxed).newValue) }

    /// The id that was assigned last.
    static var latest: SessionID { SessionID(last.load(ordering: .relaxed)) }
}
