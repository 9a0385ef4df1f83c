internal import HeapModule
internal import Platform

/// The times at which sends need attention, the earliest first. Alarms of sends that have a result are dropped later.
struct Alarms {
    private struct Alarm: Comparable {
        let at: Instant
        let id: SendID

        static func < (left: Alarm, right: Alarm) -> Bool { left.at < right.at }
    }

    /// A send has at most two alarms that matter: its deadline and the end of its rest.
    private static let perSend = 2
    private static let spare = 1000

    private var heap = Heap<Alarm>()

    /// The earliest alarm.
    var next: Instant? { heap.min?.at }
    var count: Int { heap.count }

    mutating func set(_ id: SendID, at time: Instant) { heap.insert(Alarm(at: time, id: id)) }

    /// Removes and returns the first send whose alarm is due.
    mutating func popDue(now: Instant) -> SendID? {
        guard let first = heap.min, first.at <= now else { return nil }
        return heap.popMin()?.id
    }

    /// Drops alarms of sends that have a result, once they are the majority.
    mutating func trim(live: Int, isLive: (SendID) -> Bool) {
        if heap.count > 2 * Self.perSend * live + Self.spare { heap = Heap(heap.unordered.filter { isLive($0.id) }) }
    }
}
