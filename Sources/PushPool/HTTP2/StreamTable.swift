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

/// The state of one request while its stream is open. Slots are reused.
struct StreamSlot {
    /// 0 while the slot is free.
    var stream: StreamID = 0
    /// The place of its HEADERS in the connection's output; `.max` before they are there.
    var headersAt = UInt64.max
    /// The peer's WINDOW_UPDATEs of this stream minus the DATA sent.
    var credit = 0
    /// The part of its body that waits for a window.
    var unsent: UnsentBody?
    var window = ReceiveWindow(size: FlowWindow.initial)
    var response: IncomingResponse

    /// Whether its HEADERS are in the connection's output, from which nothing is removed.
    var isSent: Bool { headersAt != .max }
}

/// The unsent part of a body, as a range of the job's bytes.
struct UnsentBody {
    let bytes: [UInt8]
    var range: Range<Int>
}

/// The send window of the connection, in bytes of DATA (RFC 9113, 5.2).
struct FlowWindow: Equatable {
    /// The largest window that is allowed (RFC 9113, 6.9.1).
    static let most = 0x7FFF_FFFF
    /// The initial window of the connection, and of each stream until SETTINGS change it (RFC 9113, 6.9.2).
    static let initial = Reach.usualWindow

    private(set) var left = FlowWindow.initial
    /// The most bytes that were ever left: the size to which the peer opens the window.
    private(set) var size = FlowWindow.initial

    /// The value of `left` at which the next frame ends.
    private var mark = FlowWindow.initial - FlowWindow.initial / 2

    /// Bytes that the peer has not confirmed.
    var inFlight: Int { size - left }

    /// The most bytes that the next frame may have, at least 1.
    ///
    /// Servers with nghttp2, and others, confirm DATA when they have received half of their window since the last time. A frame
    /// ends where `inFlight` is a multiple of this half: otherwise the bytes behind it wait for more DATA before they are
    /// confirmed, and a round trip carries half a window instead of a whole one.
    var frameRoom: Int { left - mark }

    mutating func spend(_ count: Int) {
        left -= count
        if left <= mark { setMark() }
    }

    private mutating func setMark() {
        let half = size / 2
        mark = size - half * (inFlight / half + 1)
    }

    /// Applies WINDOW_UPDATE. Returns `false` if the window is then too large.
    mutating func grow(by count: Int) -> Bool {
        left += count
        size = max(size, left)
        setMark()
        return left <= Self.most
    }
}

/// The window of DATA that the peer may send, and the time to enlarge it.
///
/// Violations of the window are not checked: bytes beyond the few that matter in a response are dropped.
struct ReceiveWindow: Equatable {
    let size: Int
    private var used = 0

    init(size: Int) { self.size = size }

    /// Counts DATA, padding included. Returns the increment for a WINDOW_UPDATE once half of the window is used.
    mutating func take(_ count: Int) -> Int? {
        used += count
        if used < size / 2 { return nil }
        defer { used = 0 }
        return used
    }
}
