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
