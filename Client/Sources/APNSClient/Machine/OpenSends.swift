internal import DequeModule
internal import HeapModule
internal import Platform
internal import PushPool

/// The sends that have no result yet, their order on the way to the pool, and their alarms.
struct OpenSends {
    private var table = SendTable()
    private var waiting = WaitingSends()
    private var alarms = Alarms()

    var count: Int { table.count }
    /// Alarms and places in the order, which may belong to sends that have a result.
    var records: Int { alarms.count + waiting.count }
    /// Their numbers, without those that are only reserved. Visits all slots.
    var ids: [SendID] { table.ids }
    /// The earliest alarm.
    var deadline: Instant? { alarms.next }

    subscript(id: SendID) -> PendingSend? { table[id] }

    mutating func reserve() -> SendID { table.reserve() }

    /// Adds a send under a number that was reserved. It waits for the pool.
    mutating func add(_ send: consuming PendingSend, as id: SendID) {
        if let deadline = send.deadline { alarms.set(id, at: deadline) }
        table.fill(id, with: send)
        waiting.append(id)
    }

    /// Changes a send in place, if it has no result yet.
    @discardableResult
    mutating func update<Result>(_ id: SendID, _ change: (inout PendingSend) -> Result) -> Result? { table.update(id, change) }

    /// Returns whether the send had no result.
    mutating func remove(_ id: SendID) -> Bool { table.remove(id) }

    // MARK: The way to the pool

    /// Goes out again before all others.
    mutating func requeue(_ id: SendID) {
        table.update(id) { $0.phase = .waiting }
        waiting.prepend(id)
    }

    /// Goes out again after this time.
    mutating func rest(_ id: SendID, until time: Instant) {
        table.update(id) { $0.phase = .resting(until: time) }
        alarms.set(id, at: time)
    }

    /// Moves the first waiting send to the pool.
    mutating func nextNotification() -> Notification? {
        while let id = waiting.popFirst() {
            if case let notification?? = table.update(id, { $0.enterPool(id) }) { return notification }
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

/// The sends that have no result yet. Look-ups neither hash nor allocate.
struct SendTable {
    private struct Slot {
        var use: UInt32 = 0
        var isTaken = false
        /// `nil` between `reserve` and `fill`.
        var send: PendingSend?
    }

    private var slots: [Slot] = []
    private var free: [UInt32] = []
    private(set) var count = 0

    /// Takes a number for a send that follows.
    mutating func reserve() -> SendID {
        count += 1
        let slot: Int
        if let reused = free.popLast() {
            slot = Int(reused)
        } else {
            slot = slots.count
            slots.append(Slot())
        }
        slots[slot].use &+= 1
        slots[slot].isTaken = true
        return SendID(slot: slot, use: slots[slot].use)
    }

    mutating func fill(_ id: SendID, with send: consuming PendingSend) {
        precondition(holds(id), "the send \(id) was not reserved")
        slots[id.slot].send = send
    }

    /// Frees the number. Returns whether it was taken.
    @discardableResult
    mutating func remove(_ id: SendID) -> Bool {
        guard holds(id) else { return false }
        slots[id.slot].send = nil
        slots[id.slot].isTaken = false
        free.append(UInt32(id.slot))
        count -= 1
        return true
    }

    func holds(_ id: SendID) -> Bool {
        id.slot < slots.count && slots[id.slot].use == id.use && slots[id.slot].isTaken
    }

    /// The send; `nil` if it has a result, or is not filled yet.
    subscript(id: SendID) -> PendingSend? {
        holds(id) ? slots[id.slot].send : nil
    }

    /// Changes a send in place, if it has no result yet.
    @discardableResult
    mutating func update<Result>(_ id: SendID, _ change: (inout PendingSend) -> Result) -> Result? {
        guard holds(id), slots[id.slot].send != nil else { return nil }
        return change(&slots[id.slot].send!)
    }

    /// The numbers of all filled sends. Visits every slot: for rare events only.
    var ids: [SendID] {
        slots.indices.filter { slots[$0].send != nil }.map { SendID(slot: $0, use: slots[$0].use) }
    }
}

/// The number of a send: a slot, and a count of its uses, so that a late outcome of a settled send finds nothing.
struct SendID: Hashable {
    let rawValue: UInt64

    init(_ rawValue: UInt64) { self.rawValue = rawValue }
    init(slot: Int, use: UInt32) { rawValue = UInt64(use) << 32 | UInt64(UInt32(slot)) }

    var slot: Int { Int(truncatingIfNeeded: rawValue & 0xFFFF_FFFF) }
    var use: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 32) }
}

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
