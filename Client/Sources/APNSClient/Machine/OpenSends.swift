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
