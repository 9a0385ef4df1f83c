import Platform

/// The attempts of one session, by slot and in the order of their submission.
///
/// All attempts of a session have the same time limit, so this order is the order of their deadlines. A linked list through
/// the slots finds the oldest attempt at once, removes an answered one in constant time, and holds only what is in flight.
struct AttemptTable {
    struct Attempt {
        /// The notification's id.
        var id: UInt64
        var stream: StreamID = 0
        var deadline: Instant
        /// Whether its request waits for TLS: it has no deadline yet. All newer ones wait too.
        var isUnsent = false
        /// Its outcome has been reported; the slot is taken until HTTP/2 has closed the stream.
        var isReported = false
        fileprivate var older = AttemptTable.none
        fileprivate var newer = AttemptTable.none
    }

    private static let none: Int32 = -1

    private var attempts: [Attempt] = []
    private var freeSlots: [Int32] = []
    private var oldest = none
    private var newest = none

    /// Slots in use, including those of reported attempts: the number of streams that the peer counts.
    private(set) var count = 0

    subscript(slot: Int) -> Attempt { attempts[slot] }

    /// The slot of the oldest attempt that is not reported.
    var oldestSlot: Int? { oldest == Self.none ? nil : Int(oldest) }

    /// Whether the slot still holds this stream.
    func holds(_ stream: StreamID, at slot: Int) -> Bool {
        attempts.indices.contains(slot) && attempts[slot].stream == stream && stream != 0
    }

    mutating func add(_ id: UInt64, deadline: Instant) -> Int {
        let slot: Int32
        if let free = freeSlots.popLast() {
            slot = free
            attempts[Int(slot)] = Attempt(id: id, deadline: deadline)
        } else {
            slot = Int32(attempts.count)
            attempts.append(Attempt(id: id, deadline: deadline))
        }
        attempts[Int(slot)].older = newest
        if newest == Self.none { oldest = slot } else { attempts[Int(newest)].newer = slot }
        newest = slot
        count += 1
        return Int(slot)
    }

    /// The deadline of the oldest attempt that is not reported; `nil` if its request waits for TLS.
    var deadline: Instant? { oldestSlot.flatMap { attempts[$0].isUnsent ? nil : attempts[$0].deadline } }

    /// Gives the attempts whose requests have left since the last call a new deadline, and takes it from those that wait.
    ///
    /// - Parameter isSent: whether the request in this slot has left. Requests leave in the order of their submission.
    mutating func restart(deadline: Instant, isSent: (Int) -> Bool) {
        var next = newest
        while next != Self.none, attempts[Int(next)].isUnsent || !isSent(Int(next)) {
            attempts[Int(next)].isUnsent = !isSent(Int(next))
            attempts[Int(next)].deadline = deadline
            next = attempts[Int(next)].older
        }
    }

    mutating func setStream(_ stream: StreamID, at slot: Int) {
        attempts[slot].stream = stream
    }

    /// Removes the attempt from the order of deadlines; its slot stays taken.
    mutating func markReported(at slot: Int) {
        if attempts[slot].isReported { return }
        let (older, newer) = (attempts[slot].older, attempts[slot].newer)
        if older == Self.none { oldest = newer } else { attempts[Int(older)].newer = newer }
        if newer == Self.none { newest = older } else { attempts[Int(newer)].older = older }
        attempts[slot].isReported = true
    }

    /// Frees the slot for another attempt.
    mutating func release(slot: Int) {
        markReported(at: slot)
        attempts[slot].stream = 0
        freeSlots.append(Int32(slot))
        count -= 1
    }

    /// The slots of all attempts that are not reported, oldest first.
    var unreportedSlots: [Int] {
        var slots: [Int] = []
        var next = oldest
        while next != Self.none {
            slots.append(Int(next))
            next = attempts[Int(next)].newer
        }
        return slots
    }
}
