/// Frame types that RFC 9113, 6 knows; a receiver ignores all others.
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

/// A bit means something only in the frames that define it.
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

/// What every frame begins with (RFC 9113, 4.1).
struct FrameHeader: Equatable {
    /// Bytes of the header itself.
    static let count = 9

    /// Bytes of the payload, padding included.
    var length: Int
    /// `nil` for a type that RFC 9113 does not know.
    var type: FrameType?
    var flags: FrameFlags
    var stream: StreamID

    /// From the first nine bytes at this place.
    init(_ bytes: Span<UInt8>, at place: Int) {
        length = Int(bytes[place]) << 16 | Int(bytes[place + 1]) << 8 | Int(bytes[place + 2])
        type = FrameType(rawValue: bytes[place + 3])
        flags = FrameFlags(rawValue: bytes[place + 4])
        // The highest bit is reserved.
        stream = StreamID(bytes.number(at: place + 5) & 0x7FFF_FFFF)
    }
}

/// The parameters of SETTINGS that mean something to a client (RFC 9113, 6.5.2).
enum SettingsParameter: UInt16 {
    case headerTableSize = 1
    case enablePush = 2
    case maxConcurrentStreams = 3
    case initialWindowSize = 4
    case maxFrameSize = 5
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

/// The peer broke HTTP/2 so that the connection cannot go on (RFC 9113, 5.4.1).
struct HTTP2Fault: Error, Equatable {
    var code: HTTP2ErrorCode
    /// For GOAWAY's debug data and the log; never the peer's own bytes.
    var text: String

    init(_ code: HTTP2ErrorCode, _ text: String) {
        self.code = code
        self.text = text
    }
}

extension Span<UInt8> {
    /// Four bytes, the highest first.
    func number(at place: Int) -> UInt32 {
        UInt32(self[place]) << 24 | UInt32(self[place + 1]) << 16 | UInt32(self[place + 2]) << 8 | UInt32(self[place + 3])
    }
}
