/// What HTTP/2 needs of one request for as long as its stream is open, at an address that stays.
///
/// Slots are used again and again: after a few thousand pushes a session allocates nothing any more.
struct StreamSlot {
    var stream: StreamID = 0
    /// Where its HEADERS begin in the connection's output; `.max` while they have not left the codec.
    var headersAt = UInt64.max
    var status = 0
    /// END_STREAM of the answer has come.
    var isAnswered = false

    /// What the DATA frames are read from, and how far that has come.
    var bytes: [UInt8] = []
    var next = 0
    var end = 0
    var headers: HeaderSet?

    var apnsID: String?
    var retryAfter: Int?
    var body: [UInt8] = []

    /// Path, expiration, id and collapse id, one after the other.
    private var text = UnsafeMutablePointer<UInt8>.allocate(capacity: StreamSlot.usualText)
    private var textCapacity = StreamSlot.usualText
    private var textCount = 0

    /// A path with 64 digits, an expiration, a UUID and a collapse id of 64 bytes.
    private static let usualText = 256
    private static let path: StaticString = "/3/device/"

    /// The table frees a slot's memory: a slot is a plain value.
    func deallocate() { text.deallocate() }

    /// Prepares it for a request. Room for all its texts is made first, so that none moves when the next is written.
    mutating func begin(_ notification: Notification, headers: HeaderSet) {
        precondition(
            notification.token.upperBound <= notification.bytes.count
                && notification.payload.upperBound <= notification.bytes.count,
            "notification \(notification.id) points outside of its bytes")
        let room =
            StreamSlot.path.utf8CodeUnitCount + notification.token.count + 20 + (notification.apnsID?.utf8.count ?? 0)
            + (notification.collapseID?.utf8.count ?? 0)
        if room > textCapacity {
            text.deallocate()
            text = .allocate(capacity: room)
            textCapacity = room
        }
        textCount = 0
        headersAt = .max
        status = 0
        isAnswered = false
        bytes = notification.bytes
        next = notification.payload.lowerBound
        end = notification.payload.upperBound
        self.headers = headers
    }

    /// The request is over: what it held is let go.
    mutating func finish() {
        stream = 0
        bytes = []
        headers = nil
        apnsID = nil
        retryAfter = nil
        if !body.isEmpty { body = [] }
    }

    /// `/3/device/` and the token ("Sending notification requests to APNs").
    mutating func writePath(_ token: Range<Int>) -> (UnsafeMutablePointer<UInt8>, Int) {
        let start = text + textCount
        start.update(from: StreamSlot.path.utf8Start, count: StreamSlot.path.utf8CodeUnitCount)
        bytes.withUnsafeBufferPointer { all in
            guard let base = all.baseAddress else { return }
            (start + StreamSlot.path.utf8CodeUnitCount).update(from: base + token.lowerBound, count: token.count)
        }
        let count = StreamSlot.path.utf8CodeUnitCount + token.count
        textCount += count
        return (start, count)
    }

    mutating func write(_ value: String) -> (UnsafeMutablePointer<UInt8>, Int) {
        let start = text + textCount
        var value = value
        let count = value.withUTF8 { utf8 in
            if let base = utf8.baseAddress { start.update(from: base, count: utf8.count) }
            return utf8.count
        }
        textCount += count
        return (start, count)
    }

    /// Decimal digits.
    mutating func write(_ value: Int64) -> (UnsafeMutablePointer<UInt8>, Int) {
        let start = text + textCount
        var end = start + 20
        var rest = value.magnitude
        repeat {
            end -= 1
            end.pointee = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        } while rest > 0
        if value < 0 {
            end -= 1
            end.pointee = UInt8(ascii: "-")
        }
        textCount += 20
        return (end, start + 20 - end)
    }
}

/// The slots of one codec, at addresses that stay. Its owner deallocates it.
struct SlotTable {
    private let capacity: Int
    private let slots: UnsafeMutablePointer<StreamSlot>
    /// How many have been used so far; the others are bare memory.
    private let used: UnsafeMutablePointer<Int>

    init(capacity: Int) {
        self.capacity = capacity
        slots = .allocate(capacity: capacity)
        used = .allocate(capacity: 1)
        used.initialize(to: 0)
    }

    func deallocate() {
        for slot in 0..<used.pointee { slots[slot].deallocate() }
        slots.deinitialize(count: used.pointee)
        slots.deallocate()
        used.deallocate()
    }

    func contains(_ slot: Int) -> Bool { slot >= 0 && slot < used.pointee }

    /// Makes a slot usable.
    func prepare(_ slot: Int) {
        precondition(slot < capacity, "slot \(slot) of \(capacity)")
        while used.pointee <= slot {
            (slots + used.pointee).initialize(to: StreamSlot())
            used.pointee += 1
        }
    }

    subscript(slot: Int) -> StreamSlot {
        @inline(__always) unsafeAddress {
            precondition(contains(slot), "there is no slot \(slot)")
            return UnsafePointer(slots + slot)
        }
        @inline(__always) nonmutating unsafeMutableAddress {
            precondition(contains(slot), "there is no slot \(slot)")
            return slots + slot
        }
    }
}
