import JSONBytes

/// Scalars of a JSON string that is known to be valid.
enum JSONText {
    /// Returns the scalar at `at`, escaped or not, and the place of the next one.
    static func scalar(_ bytes: Span<UInt8>, _ at: Int) -> (scalar: UInt32, next: Int) {
        let byte = bytes[at]
        if byte == UInt8(ascii: "\\") { return JSONEscape.scalar(bytes, at: at) }
        if byte < 0x80 { return (UInt32(byte), at + 1) }
        if byte < 0xE0 { return (UInt32(byte & 0x1F) << 6 | tail(bytes, at + 1), at + 2) }
        if byte < 0xF0 { return (UInt32(byte & 0x0F) << 12 | tail(bytes, at + 1) << 6 | tail(bytes, at + 2), at + 3) }
        let high = UInt32(byte & 0x07) << 18 | tail(bytes, at + 1) << 12
        return (high | tail(bytes, at + 2) << 6 | tail(bytes, at + 3), at + 4)
    }

    private static func tail(_ bytes: Span<UInt8>, _ at: Int) -> UInt32 { UInt32(bytes[at] & 0x3F) }

    /// Calls `body` with each byte of the scalar in UTF-8.
    @inline(__always)
    static func eachByte(of scalar: UInt32, _ body: (UInt8) -> Void) {
        func trail(_ shift: UInt32) { body(UInt8(0x80 | (scalar >> shift & 0x3F))) }
        switch scalar {
        case 0..<0x80: body(UInt8(scalar))
        case 0x80..<0x800:
            body(UInt8(0xC0 | scalar >> 6))
            trail(0)
        case 0x800..<0x10000:
            body(UInt8(0xE0 | scalar >> 12))
            trail(6)
            trail(0)
        default:
            body(UInt8(0xF0 | scalar >> 18))
            trail(12)
            trail(6)
            trail(0)
        }
    }
}
