/// Bytes for the socket, numbered from the start of the connection.
@safe struct OutBuffer: ~Copyable {
    private var storage: UnsafeMutableRawPointer
    private var capacity: Int
    private var head = 0
    private var tail = 0

    /// The number of bytes of the connection that `consume` has removed.
    private(set) var written: UInt64 = 0

    init(capacity: Int = 32 << 10) {
        self.capacity = capacity
        unsafe storage = .allocate(byteCount: capacity, alignment: 16)
    }

    deinit { unsafe storage.deallocate() }

    var count: Int { tail - head }

    /// The number of the next byte of the connection.
    var end: UInt64 { written + UInt64(count) }

    // MARK: In

    @inline(__always)
    mutating func append(_ byte: UInt8) {
        if tail == capacity { makeRoom(for: 1) }
        unsafe storage.storeBytes(of: byte, toByteOffset: tail, as: UInt8.self)
        tail += 1
    }

    /// Appends four bytes, the highest first.
    @inline(__always)
    mutating func append(_ number: UInt32) {
        if tail + 4 > capacity { makeRoom(for: 4) }
        unsafe storage.storeBytes(of: number.bigEndian, toByteOffset: tail, as: UInt32.self)
        tail += 4
    }

    @inline(__always)
    mutating func append(_ bytes: Span<UInt8>) {
        if tail + bytes.count > capacity { makeRoom(for: bytes.count) }
        let target = unsafe storage + tail
        unsafe bytes.withUnsafeBytes { source in
            if let base = source.baseAddress { unsafe target.copyMemory(from: base, byteCount: source.count) }
        }
        tail += bytes.count
    }

    @inline(__always)
    mutating func append(_ bytes: [UInt8]) { append(bytes.span) }

    @inline(__always)
    mutating func append(_ text: StaticString) {
        if tail + text.utf8CodeUnitCount > capacity { makeRoom(for: text.utf8CodeUnitCount) }
        unsafe (storage + tail).copyMemory(from: text.utf8Start, byteCount: text.utf8CodeUnitCount)
        tail += text.utf8CodeUnitCount
    }

    /// Overwrites a byte that is still in the buffer.
    mutating func set(_ byte: UInt8, at place: UInt64) {
        unsafe storage.storeBytes(of: byte, toByteOffset: offset(place), as: UInt8.self)
    }

    /// Returns a copy of the bytes appended since this place.
    func bytes(since place: UInt64) -> [UInt8] {
        unsafe Array(UnsafeRawBufferPointer(start: storage + offset(place), count: tail - offset(place)))
    }

    /// Removes the bytes appended since this place.
    mutating func remove(since place: UInt64) { tail = offset(place) }

    private func offset(_ place: UInt64) -> Int {
        precondition(place >= written && place <= end, "byte \(place) is not among \(written) to \(end)")
        return head + Int(place - written)
    }

    // MARK: Out

    /// Passes the oldest bytes, at most `most` of them, to `body`.
    func withFirst<Result>(_ most: Int, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        unsafe body(UnsafeRawBufferPointer(start: storage + head, count: min(most, count)))
    }

    /// Removes the oldest `count` bytes.
    mutating func consume(_ count: Int) {
        head += count
        written += UInt64(count)
        if head == tail {
            head = 0
            tail = 0
        }
    }

    @inline(never)
    private mutating func makeRoom(for more: Int) {
        let used = count
        // A small rest in a large buffer moves to its start; otherwise the buffer doubles, so that waiting bytes are not moved
        // repeatedly.
        if used + more <= capacity / 2 {
            unsafe storage.copyMemory(from: storage + head, byteCount: used)
        } else {
            while used + more > capacity / 2 { capacity *= 2 }
            let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
            unsafe larger.copyMemory(from: storage + head, byteCount: used)
            unsafe storage.deallocate()
            unsafe storage = unsafe larger
        }
        head = 0
        tail = used
    }
}
