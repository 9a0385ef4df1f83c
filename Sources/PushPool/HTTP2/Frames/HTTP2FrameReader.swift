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

    private func require(
        _ isStreamRight: Bool, _ header: FrameHeader, hasLength isLengthRight: Bool = true
    ) throws(HTTP2Error) {
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
    private mutating func payload(
        of header: FrameHeader, at start: Int, _ padding: UInt8
    ) throws(HTTP2Error) -> Range<Int> {
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
