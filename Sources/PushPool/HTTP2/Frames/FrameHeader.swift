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
