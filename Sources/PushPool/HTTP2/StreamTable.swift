/// The slots of a connection, found by number or by stream.
///
/// Stream ids are consecutive, so a ring finds them. A stream that is still open after a whole round of the ring moves to a
/// dictionary.
struct StreamTable {
    private static let none: Int32 = -1

    private let capacity: Int
    private let collectsAPNSIDs: Bool
    private var slots: [StreamSlot]
    /// The slot of the stream at this place of the ring, which may be another one.
    private var ring: [Int32]
    private var stragglers: [StreamID: Int32] = [:]
    /// Streams whose HEADERS have been sent.
    var openCount = 0

    /// - Parameters:
    ///   - capacity: the number of streams that may be open at a time.
    ///   - collectsAPNSIDs: whether responses with status 200 keep their id.
    init(capacity: Int, collectsAPNSIDs: Bool) {
        self.collectsAPNSIDs = collectsAPNSIDs
        self.capacity = capacity
        slots = []
        ring = [Int32](repeating: StreamTable.none, count: 1 << (Int.bitWidth - (2 * capacity).leadingZeroBitCount))
    }

    subscript(slot: Int) -> StreamSlot {
        get { slots[slot] }
        _modify { yield &slots[slot] }
    }

    /// Slots that were ever used.
    var indices: Range<Int> { slots.indices }

    /// All open streams, in the order of the slots.
    var streams: [StreamID] { slots.compactMap { $0.stream == 0 ? nil : $0.stream } }

    /// Puts a stream into a free slot.
    mutating func begin(_ stream: StreamID, at slot: Int) {
        precondition(slot < capacity, "slot \(slot) of \(capacity)")
        while slots.count <= slot { slots.append(StreamSlot(response: IncomingResponse(collectsAPNSID: collectsAPNSIDs))) }
        precondition(slots[slot].stream == 0, "slot \(slot) still has stream \(slots[slot].stream)")
        slots[slot].stream = stream
        let place = place(of: stream)
        let other = Int(ring[place])
        // The stream at this place has stayed open for a whole round of the ring.
        if other >= 0 && slots[other].stream != 0 && slots[other].stream != stream
            && self.place(of: slots[other].stream) == place
        {
            stragglers[slots[other].stream] = Int32(other)
        }
        ring[place] = Int32(slot)
    }

    /// Returns the slot of a stream, or `nil` if it is closed.
    func slot(of stream: StreamID) -> Int? {
        let slot = Int(ring[place(of: stream)])
        if slot >= 0 && slots[slot].stream == stream && stream != 0 { return slot }
        return stragglers.isEmpty ? nil : stragglers[stream].map { Int($0) }
    }

    /// Frees the slot of a closed stream.
    mutating func end(_ slot: Int) {
        if !stragglers.isEmpty { stragglers[slots[slot].stream] = nil }
        if slots[slot].isSent { openCount -= 1 }
        slots[slot] = StreamSlot(response: IncomingResponse(collectsAPNSID: collectsAPNSIDs))
    }

    private func place(of stream: StreamID) -> Int { Int(stream.number >> 1) & (ring.count - 1) }
}
