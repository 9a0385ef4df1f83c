internal import Synchronization

/// Streams that all open sessions of a pool can have open. Each session adds its own part and takes it away again.
final class Capacity: Sendable {
    private let sum = Atomic<Int>(0)

    var value: Int { sum.load(ordering: .relaxed) }

    func change(by difference: Int) {
        sum.add(difference, ordering: .relaxed)
    }
}
