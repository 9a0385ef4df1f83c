internal import Synchronization

/// The streams that all open sessions of a pool may have open. Each session adds and removes its own part.
final class Capacity: Sendable {
    private let sum = Atomic<Int>(0)

    var value: Int { sum.load(ordering: .relaxed) }

    func change(by difference: Int) {
        sum.add(difference, ordering: .relaxed)
    }
}
