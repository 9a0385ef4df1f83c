internal import DequeModule
internal import HeapModule
internal import Platform
internal import PushPool

/// The sends that have no result yet, their order on the way to the pool, and their alarms.
struct OpenSends {
    private struct Alarm: Comparable {
        let at: Instant
        let id: SendID

        static func < (left: Alarm, right: Alarm) -> Bool { left.at < right.at }
    }

    /// A send has at most two alarms that matter: its deadline and the end of its rest.
    private static let alarmsPerSend = 2
    private static let spareAlarms = 1000
    private static let spareWaiting = 250

    private var table = SlotTable<PendingSend>()
    /// The sends that wait for room in the pool. New ones go to the end, and those that go out again to the front. A settled
    /// send stays until its turn.
    private var waiting: Deque<SendID> = []
    /// The times at which sends need attention, also of sends that have a result.
    private var alarms = Heap<Alarm>()

    var count: Int { table.count }
    /// Alarms and places in the order, which may belong to sends that have a result.
    var records: Int { alarms.count + waiting.count }
    /// Their numbers, without those that are only reserved. Visits all slots.
    var ids: [SendID] { table.ids() }
    /// The earliest alarm.
    var deadline: Instant? { alarms.min?.at }

    /// A send without a result, which can be changed in place by optional chaining.
    subscript(id: SendID) -> PendingSend? {
        get { table[id] }
        _modify { yield &table[id] }
    }

    mutating func reserve() -> SendID { table.reserve() }

    /// Adds a send under a number that was reserved. It waits for the pool.
    mutating func add(_ send: consuming PendingSend, as id: SendID) {
        if let deadline = send.deadline { alarms.insert(Alarm(at: deadline, id: id)) }
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
        alarms.insert(Alarm(at: time, id: id))
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
        while let first = alarms.min, first.at <= now {
            alarms.removeMin()
            if let send = table[first.id] { return (first.id, send) }
        }
        return nil
    }

    /// Drops the records of sends that have a result, once they are the majority.
    mutating func trim() {
        if waiting.count > 2 * count + Self.spareWaiting { waiting.removeAll { [table] in table[$0] == nil } }
        if alarms.count > 2 * Self.alarmsPerSend * count + Self.spareAlarms {
            alarms = Heap(alarms.unordered.filter { table.holds($0.id) })
        }
    }
}

/// The number of a send. A late outcome of a settled send finds nothing under it.
typealias SendID = SlotID
