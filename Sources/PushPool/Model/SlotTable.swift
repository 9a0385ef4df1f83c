/// Items by the ids of their notifications: jobs of the daemon, sends of the client library. A slot is used again under another
/// id, so that a late outcome of a settled item finds nothing. Look-ups neither hash nor allocate.
///
/// Inlinable, so that other modules specialise it.
@usableFromInline
package struct SlotTable<Item> {
    @usableFromInline
    struct Slot {
        /// Odd while the slot is taken: an id whose use is that of the slot is valid.
        @usableFromInline var use: UInt32 = 0
        /// `nil` between `reserve` and `fill`, too.
        @usableFromInline var item: Item?

        @usableFromInline init() {}
    }

    @usableFromInline var slots: [Slot] = []
    @usableFromInline var free: [UInt32] = []
    /// Taken slots.
    @usableFromInline package internal(set) var count = 0

    @inlinable package init() {}

    /// Takes an id for an item that follows.
    @inlinable
    package mutating func reserve() -> SlotID {
        count += 1
        let slot: Int
        if let reused = free.popLast() {
            slot = Int(reused)
        } else {
            slot = slots.count
            slots.append(Slot())
        }
        slots[slot].use &+= 1
        return SlotID(slot: slot, use: slots[slot].use)
    }

    /// Sets the item of a reserved id.
    @inlinable
    package mutating func fill(_ id: SlotID, with item: consuming Item) {
        precondition(holds(id), "the id \(id.rawValue) is not taken")
        slots[id.slot].item = item
    }

    @inlinable
    package mutating func insert(_ item: consuming Item) -> SlotID {
        let id = reserve()
        slots[id.slot].item = item
        return id
    }

    /// Frees the id. Returns its item, if there was one.
    @inlinable @discardableResult
    package mutating func remove(_ id: SlotID) -> Item? {
        guard holds(id) else { return nil }
        slots[id.slot].use &+= 1
        free.append(UInt32(id.slot))
        count -= 1
        return slots[id.slot].item.take()
    }

    /// Whether the id is taken.
    @inlinable
    package func holds(_ id: SlotID) -> Bool { id.slot < slots.count && slots[id.slot].use == id.use && id.use & 1 == 1 }

    /// The item, if the id is taken and filled. It can be changed in place by optional chaining.
    @inlinable
    package subscript(id: SlotID) -> Item? {
        get { holds(id) ? slots[id.slot].item : nil }
        _modify {
            if holds(id) {
                yield &slots[id.slot].item
            } else {
                var none: Item?
                yield &none
            }
        }
    }

    /// The ids of all items for which `condition` holds, in no order. Visits every slot: for rare events only.
    @inlinable
    package func ids(where condition: (Item) -> Bool = { _ in true }) -> [SlotID] {
        slots.indices.compactMap { slot in
            guard let item = slots[slot].item, condition(item) else { return nil }
            return SlotID(slot: slot, use: slots[slot].use)
        }
    }
}

extension SlotTable: Sendable where Item: Sendable {}
extension SlotTable.Slot: Sendable where Item: Sendable {}

/// The id of an item: a slot, and a count of its uses. Its raw value is the id of the item's notifications.
@usableFromInline
package struct SlotID: Hashable, Sendable {
    @usableFromInline package let rawValue: UInt64

    @inlinable package init(_ rawValue: UInt64) { self.rawValue = rawValue }
    @inlinable package init(slot: Int, use: UInt32) { rawValue = UInt64(use) << 32 | UInt64(UInt32(slot)) }

    @inlinable package var slot: Int { Int(truncatingIfNeeded: rawValue & 0xFFFF_FFFF) }
    @inlinable package var use: UInt32 { UInt32(truncatingIfNeeded: rawValue >> 32) }
}
