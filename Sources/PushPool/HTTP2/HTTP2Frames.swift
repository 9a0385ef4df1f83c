/// Splits the peer's bytes into frames and checks each frame by itself.
///
/// A frame that lies completely in the given bytes is not copied; a partial frame is held until it is complete.
struct HTTP2FrameReader {
    struct Frame {
        var header: FrameHeader
        /// The payload without padding and priority: a range of the given bytes, or of the held bytes.
        var payload: Range<Int>
        /// Whether the payload is in the bytes that `takeHeld` returns.
        var isHeld: Bool
    }

    /// The largest payload: SETTINGS_MAX_FRAME_SIZE keeps its default (RFC 9113, 4.2).
    static let mostPayload = 16384
    /// The largest header block in bytes, over all its frames. APNs sends fewer than 200.
    static let mostBlock = 64 << 10
    /// The most CONTINUATION frames of one header block: empty ones could continue forever.
    static let mostContinuations = 64

    private var held: [UInt8] = []
    /// The header of the held frame, once its nine bytes are there.
    private var heldHeader: FrameHeader?
    private var isFirst = true
    /// The stream whose header block is incomplete, or 0.
    private var openBlock: StreamID = 0
    private var blockBytes = 0
    private var continuations = 0

    /// Returns the next complete frame from `place` on and moves `place` behind it. Returns `nil` when all bytes are used up.
    mutating func next(in bytes: Span<UInt8>, from place: inout Int) throws(HTTP2Error) -> Frame? {
        if !held.isEmpty { return try nextHeld(in: bytes, from: &place) }
        let rest = bytes.count - place
        guard rest >= FrameHeader.count else {
            hold(bytes, from: &place, until: rest)
            return nil
        }
        let header = FrameHeader(bytes, at: place)
        try check(header)
        guard rest >= FrameHeader.count + header.length else {
            heldHeader = header
            hold(bytes, from: &place, until: rest)
            return nil
        }
        let start = place + FrameHeader.count
        place = start + header.length
        let padding = header.length > 0 ? bytes[start] : 0
        return Frame(header: header, payload: try payload(of: header, at: start, padding), isHeld: false)
    }

    /// Returns the bytes that contain a held frame's `payload`. Return them with `giveBack` before the next call of `next`.
    mutating func takeHeld() -> [UInt8] {
        var taken: [UInt8] = []
        swap(&taken, &held)
        return taken
    }

    mutating func giveBack(_ bytes: consuming [UInt8]) {
        held = bytes
        held.removeAll(keepingCapacity: true)
    }

    private mutating func nextHeld(in bytes: Span<UInt8>, from place: inout Int) throws(HTTP2Error) -> Frame? {
        if heldHeader == nil {
            hold(bytes, from: &place, until: FrameHeader.count)
            guard held.count == FrameHeader.count else { return nil }
            let header = FrameHeader(held.span, at: 0)
            try check(header)
            heldHeader = header
        }
        guard let header = heldHeader else { return nil }
        hold(bytes, from: &place, until: FrameHeader.count + header.length)
        guard held.count == FrameHeader.count + header.length else { return nil }
        heldHeader = nil
        let padding = header.length > 0 ? held[FrameHeader.count] : 0
        return Frame(header: header, payload: try payload(of: header, at: FrameHeader.count, padding), isHeld: true)
    }

    /// Holds more bytes until there are `count`.
    private mutating func hold(_ bytes: Span<UInt8>, from place: inout Int, until count: Int) {
        let more = min(count - held.count, bytes.count - place)
        for offset in 0..<more { held.append(bytes[place + offset]) }
        place += more
    }

    // MARK: Checks

    private mutating func check(_ header: FrameHeader) throws(HTTP2Error) {
        guard header.length <= Self.mostPayload else {
            throw HTTP2Error(.frameSizeError, "a frame of \(header.length) bytes")
        }
        if isFirst { try checkFirst(header) }
        guard (header.type == .continuation) == (openBlock != 0), openBlock == 0 || header.stream == openBlock else {
            throw HTTP2Error(.protocolError, "a header block was broken into, or a CONTINUATION continues none")
        }
        switch header.type {
        case .data, .headers, .continuation: try require(header.stream != 0, header)
        case .priority: try require(header.stream != 0, header, hasLength: header.length == 5)
        case .resetStream: try require(header.stream != 0, header, hasLength: header.length == 4)
        case .settings:
            let isRight = header.flags.contains(.ack) ? header.length == 0 : header.length % 6 == 0
            try require(header.stream == 0, header, hasLength: isRight)
        case .ping: try require(header.stream == 0, header, hasLength: header.length == 8)
        case .goAway: try require(header.stream == 0, header, hasLength: header.length >= 8)
        case .windowUpdate: try require(true, header, hasLength: header.length == 4)
        case .pushPromise: throw HTTP2Error(.protocolError, "PUSH_PROMISE, which our SETTINGS forbid")
        case nil: return
        }
    }

    /// SETTINGS come first (RFC 9113, 3.4). APNs has also sent GOAWAY instead (jchambers/pushy#831).
    private mutating func checkFirst(_ header: FrameHeader) throws(HTTP2Error) {
        isFirst = false
        if header.type == .settings && !header.flags.contains(.ack) || header.type == .goAway { return }
        throw HTTP2Error(.protocolError, "the peer does not begin with SETTINGS")
    }

    private func require(_ isStreamRight: Bool, _ header: FrameHeader, hasLength isLengthRight: Bool = true) throws(HTTP2Error) {
        guard isLengthRight else {
            throw HTTP2Error(.frameSizeError, "\(Self.name(header.type)) of \(header.length) bytes")
        }
        guard isStreamRight else {
            throw HTTP2Error(.protocolError, "\(Self.name(header.type)) on stream \(header.stream)")
        }
    }

    private static func name(_ type: FrameType?) -> String { type.map { "a frame of type \($0.rawValue)" } ?? "a frame" }

    /// Returns the place of the payload without padding and priority (RFC 9113, 6.1, 6.2), and counts header blocks.
    ///
    /// - Parameter padding: the payload's first byte, which is the size of the padding if there is any.
    private mutating func payload(of header: FrameHeader, at start: Int, _ padding: UInt8) throws(HTTP2Error) -> Range<Int> {
        var (first, end) = (start, start + header.length)
        guard header.type == .data || header.type == .headers else {
            if header.type == .continuation { try count(header, blockBytes: header.length) }
            return first..<end
        }
        if header.flags.contains(.padded) {
            guard header.length >= 1 else { throw HTTP2Error(.frameSizeError, "padding without its length") }
            first += 1
            end -= Int(padding)
        }
        if header.type == .headers && header.flags.contains(.priority) { first += 5 }
        guard first <= end else {
            throw HTTP2Error(.protocolError, "padding or priority that is longer than its frame")
        }
        if header.type == .headers { try count(header, blockBytes: end - first) }
        return first..<end
    }

    private mutating func count(_ header: FrameHeader, blockBytes more: Int) throws(HTTP2Error) {
        let isContinued = header.type == .continuation
        blockBytes = isContinued ? blockBytes + more : more
        continuations = isContinued ? continuations + 1 : 0
        openBlock = header.flags.contains(.endHeaders) ? 0 : header.stream
        guard blockBytes <= Self.mostBlock, continuations <= Self.mostContinuations else {
            throw HTTP2Error(.enhanceYourCalm, "a header block of \(blockBytes) bytes in \(continuations + 1) frames")
        }
    }
}

/// The first nine bytes of every frame (RFC 9113, 4.1).
struct FrameHeader: Equatable {
    /// The size of the header itself in bytes.
    static let count = 9

    /// The size of the payload in bytes, padding included.
    var length: Int
    /// `nil` for a type that RFC 9113 does not define.
    var type: FrameType?
    var flags: FrameFlags
    var stream: StreamID

    /// Reads the header from the nine bytes at this place.
    init(_ bytes: Span<UInt8>, at place: Int) {
        length = Int(bytes[place]) << 16 | Int(bytes[place + 1]) << 8 | Int(bytes[place + 2])
        type = FrameType(rawValue: bytes[place + 3])
        flags = FrameFlags(rawValue: bytes[place + 4])
        stream = StreamID(field: bytes.number(at: place + 5))
    }
}

/// The frame types of RFC 9113, 6. A receiver ignores all others.
enum FrameType: UInt8 {
    case data = 0
    case headers = 1
    case priority = 2
    case resetStream = 3
    case settings = 4
    case pushPromise = 5
    case ping = 6
    case goAway = 7
    case windowUpdate = 8
    case continuation = 9
}

/// The flags of a frame. The meaning of a bit depends on the frame's type.
struct FrameFlags: OptionSet {
    let rawValue: UInt8
    /// SETTINGS, PING.
    static let ack = FrameFlags(rawValue: 0x01)
    /// DATA, HEADERS.
    static let endStream = FrameFlags(rawValue: 0x01)
    /// HEADERS, CONTINUATION.
    static let endHeaders = FrameFlags(rawValue: 0x04)
    /// DATA, HEADERS.
    static let padded = FrameFlags(rawValue: 0x08)
    /// HEADERS.
    static let priority = FrameFlags(rawValue: 0x20)
}

/// The parameters of SETTINGS that mean something to a client (RFC 9113, 6.5.2).
enum SettingsParameter: UInt16 {
    case headerTableSize = 1
    case enablePush = 2
    case maxConcurrentStreams = 3
    case initialWindowSize = 4
    case maxFrameSize = 5
}

/// An HTTP/2 stream identifier of 31 bits: odd for a stream that the client opens, 0 for the connection (RFC 9113, 5.1.1).
struct StreamID: Hashable, Comparable, ExpressibleByIntegerLiteral, CustomStringConvertible {
    let number: Int32

    init(_ number: Int32) { self.number = number }

    /// Returns `nil` for more than 31 bits.
    init?(exactly number: UInt32) {
        guard let number = Int32(exactly: number) else { return nil }
        self.init(number)
    }

    /// Reads the field of a frame, whose highest bit is reserved.
    init(field: UInt32) { self.init(Int32(field & 0x7FFF_FFFF)) }

    init(integerLiteral number: Int32) { self.init(number) }

    var isOpenedByClient: Bool { number & 1 == 1 }

    var description: String { "\(number)" }

    static func < (left: StreamID, right: StreamID) -> Bool { left.number < right.number }
}

/// A violation of HTTP/2 by the peer that ends the connection (RFC 9113, 5.4.1).
struct HTTP2Error: Error, Equatable {
    var code: HTTP2ErrorCode
    /// For GOAWAY's debug data and the log; never the peer's own bytes.
    var text: String

    init(_ code: HTTP2ErrorCode, _ text: String) {
        self.code = code
        self.text = text
    }
}

/// RFC 9113, 7.
enum HTTP2ErrorCode: UInt32 {
    case noError = 0
    case protocolError = 1
    case flowControlError = 3
    case frameSizeError = 6
    case refusedStream = 7
    case cancel = 8
    case compressionError = 9
    case enhanceYourCalm = 11
}

extension Span<UInt8> {
    /// Four bytes, the highest first.
    func number(at place: Int) -> UInt32 {
        UInt32(self[place]) << 24 | UInt32(self[place + 1]) << 16 | UInt32(self[place + 2]) << 8 | UInt32(self[place + 3])
    }
}

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
