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

/// The frames that a client sends, appended to the connection's output.
extension OutBuffer {
    /// The client's first bytes, before its SETTINGS (RFC 9113, 3.4).
    static let preface: StaticString = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    /// Payloads go out in frames of at most this many bytes: every peer takes them (RFC 9113, 4.2).
    static let mostPayload = 16384

    @inline(__always)
    mutating func frame(_ type: FrameType, _ flags: FrameFlags, _ stream: StreamID, length: Int) {
        append(UInt32(length) << 8 | UInt32(type.rawValue))
        append(flags.rawValue)
        append(UInt32(bitPattern: stream.number))
    }

    mutating func settings(_ values: [(SettingsParameter, UInt32)]) {
        frame(.settings, [], 0, length: values.count * 6)
        for (parameter, value) in values {
            append(UInt8(truncatingIfNeeded: parameter.rawValue >> 8))
            append(UInt8(truncatingIfNeeded: parameter.rawValue))
            append(value)
        }
    }

    mutating func settingsAcknowledgement() { frame(.settings, .ack, 0, length: 0) }

    mutating func ping(_ number: UInt64, _ flags: FrameFlags) {
        frame(.ping, flags, 0, length: 8)
        append(UInt32(truncatingIfNeeded: number >> 32))
        append(UInt32(truncatingIfNeeded: number))
    }

    /// - Parameter stream: 0 for the connection's window.
    mutating func windowUpdate(_ stream: StreamID, by increment: Int) {
        frame(.windowUpdate, [], stream, length: 4)
        append(UInt32(increment))
    }

    mutating func resetStream(_ stream: StreamID, _ code: HTTP2ErrorCode) {
        frame(.resetStream, [], stream, length: 4)
        append(code.rawValue)
    }

    /// The last stream id is 0: a server without push opens none.
    mutating func goAway(_ code: HTTP2ErrorCode, debugData: String = "") {
        let debug = Array(debugData.utf8.prefix(200))
        frame(.goAway, [], 0, length: 8 + debug.count)
        append(UInt32(0))
        append(code.rawValue)
        append(debug.span)
    }

    /// DATA, in as many frames as it takes.
    mutating func data(_ stream: StreamID, _ bytes: Span<UInt8>, isLast: Bool) {
        var place = 0
        repeat {
            let count = min(Self.mostPayload, bytes.count - place)
            let isEnd = isLast && place + count == bytes.count
            frame(.data, isEnd ? .endStream : [], stream, length: count)
            append(bytes.extracting(place..<(place + count)))
            place += count
        } while place < bytes.count
    }

    /// Starts a HEADERS frame and returns the start of its block. The caller appends the block, then calls `endHeaders`.
    mutating func beginHeaders(_ stream: StreamID) -> UInt64 {
        frame(.headers, .endHeaders, stream, length: 0)
        return end
    }

    /// The block is complete. The part that exceeds one frame continues in CONTINUATION frames.
    mutating func endHeaders(_ stream: StreamID, blockAt start: UInt64) {
        var rest: [UInt8] = []
        if end - start > UInt64(Self.mostPayload) {
            rest = bytes(since: start + UInt64(Self.mostPayload))
            remove(since: start + UInt64(Self.mostPayload))
            set(0, at: start - 5)  // the flags
        }
        let length = end - start
        set(UInt8(truncatingIfNeeded: length >> 8), at: start - 8)
        set(UInt8(truncatingIfNeeded: length), at: start - 7)
        var place = 0
        while place < rest.count {
            let next = min(place + Self.mostPayload, rest.count)
            frame(.continuation, next == rest.count ? .endHeaders : [], stream, length: next - place)
            append(rest.span.extracting(place..<next))
            place = next
        }
    }
}
