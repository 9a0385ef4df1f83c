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
