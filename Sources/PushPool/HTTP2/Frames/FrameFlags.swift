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
