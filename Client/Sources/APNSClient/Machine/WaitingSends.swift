internal import DequeModule

/// The sends that wait for room in the pool. New ones go to the end, and those that go out again to the front. A settled send
/// stays until its turn.
struct WaitingSends {
    private static let spare = 250

    private var ids: Deque<SendID> = []

    var count: Int { ids.count }

    mutating func append(_ id: SendID) { ids.append(id) }
    mutating func prepend(_ id: SendID) { ids.prepend(id) }
    mutating func popFirst() -> SendID? { ids.popFirst() }

    /// Drops sends that have a result, once they are the majority.
    mutating func trim(live: Int, isLive: (SendID) -> Bool) {
        if ids.count > 2 * live + Self.spare { ids.removeAll { !isLive($0) } }
    }
}
