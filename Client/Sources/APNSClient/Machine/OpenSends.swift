internal import DequeModule
internal import HeapModule
internal import Platform
internal import PushPool

/// The sends that have no result yet, their order on the way to the pool, and their alarms.
struct OpenSends {
    private var table = SlotTable<PendingSend>()
    private var waiting = WaitingSends()
    private var alarms = Alarms()

    var count: Int { table.count }
    /// Alarms and places in the order, which may belong to sends that have a result.
    var records: Int { alarms.count + waiting.count }
    /// Their numbers, without those that are only reserved. Visits all slots.
    var ids: [SendID] { table.ids() }
    /// The earliest alarm.
    var deadline: Instant? { alarms.next }

    /// A send without a result, which can be changed in place by optional chaining.
    subscript(id: SendID) -> PendingSend? {
        get { table[id] }
        _modify { yield &table[id] }
    }

    mutating func reserve() -> SendID { table.reserve() }

    /// Adds a send under a number that was reserved. It waits for the pool.
    mutating func add(_ send: consuming PendingSend, as id: SendID) {
        if let deadline = send.deadline { alarms.set(id, at: deadline) }
        table.fill(id, with: send)
        waiting.append(id)
    }

    /// Returns whether the send had no result.
    mutating func remove(_ id: SendID) -> Bool {
        defer { table.remove(id) }
        return table.holds(id)
    }

    // MARK: The way to the pool

    /// Goes out again before all others.
    mutating func requeue(_ id: SendID) {
        table[id]?.phase = .waiting
        waiting.prepend(id)
    }

    /// Goes out again after this time.
    mutating func rest(_ id: SendID, until time: Instant) {
        table[id]?.phase = .resting(until: time)
        alarms.set(id, at: time)
    }

    /// Moves the first waiting send to the pool.
    mutating func nextNotification() -> Notification? {
        while let id = waiting.popFirst() {
            if let notification = table[id]?.enterPool(id) { return notification }
        }
        return nil
    }

    /// Takes the first waiting send out of the order. It is settled next.
    mutating func popWaiting() -> (SendID, PendingSend)? {
        while let id = waiting.popFirst() {
            if let send = table[id], send.phase == .waiting { return (id, send) }
        }
        return nil
    }

    /// Removes and returns the first alarm that is due.
    mutating func popDue(now: Instant) -> (SendID, PendingSend)? {
        while let id = alarms.popDue(now: now) {
            if let send = table[id] { return (id, send) }
        }
        return nil
    }

    /// Bounds the records of sends that have a result.
    mutating func trim() {
        alarms.trim(live: count) { [table] in table.holds($0) }
        waiting.trim(live: count) { [table] in table[$0] != nil }
    }
}

/// The number of a send. A late outcome of a settled send finds nothing under it.
typealias SendID = SlotID

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
