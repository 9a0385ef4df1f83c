/// Scalars of a JSON string that is known to be valid.
enum JSONText {
    /// The scalar that begins at `at`, escaped or not, and where the next one does. A lone surrogate is U+FFFD.
    static func scalar(_ bytes: Span<UInt8>, _ at: Int) -> (scalar: UInt32, next: Int) {
        let byte = bytes[at]
        if byte == UInt8(ascii: "\\") { return escape(bytes, at) }
        if byte < 0x80 { return (UInt32(byte), at + 1) }
        if byte < 0xE0 { return (UInt32(byte & 0x1F) << 6 | tail(bytes, at + 1), at + 2) }
        if byte < 0xF0 { return (UInt32(byte & 0x0F) << 12 | tail(bytes, at + 1) << 6 | tail(bytes, at + 2), at + 3) }
        let high = UInt32(byte & 0x07) << 18 | tail(bytes, at + 1) << 12
        return (high | tail(bytes, at + 2) << 6 | tail(bytes, at + 3), at + 4)
    }

    private static func tail(_ bytes: Span<UInt8>, _ at: Int) -> UInt32 { UInt32(bytes[at] & 0x3F) }

    private static func escape(_ bytes: Span<UInt8>, _ at: Int) -> (UInt32, Int) {
        switch bytes[at + 1] {
        case UInt8(ascii: "b"): return (0x08, at + 2)
        case UInt8(ascii: "f"): return (0x0C, at + 2)
        case UInt8(ascii: "n"): return (0x0A, at + 2)
        case UInt8(ascii: "r"): return (0x0D, at + 2)
        case UInt8(ascii: "t"): return (0x09, at + 2)
        case UInt8(ascii: "u"): return unit(bytes, at)
        case let same: return (UInt32(same), at + 2)  // quote, backslash and slash
        }
    }

    private static func unit(_ bytes: Span<UInt8>, _ at: Int) -> (UInt32, Int) {
        let unit = hex(bytes, at + 2)
        guard 0xD800...0xDFFF ~= unit else { return (unit, at + 6) }
        // The closing quote keeps both looks ahead within the text.
        if unit < 0xDC00, bytes[at + 6] == UInt8(ascii: "\\"), bytes[at + 7] == UInt8(ascii: "u") {
            let low = hex(bytes, at + 8)
            if 0xDC00...0xDFFF ~= low { return (0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00), at + 12) }
        }
        return (0xFFFD, at + 6)
    }

    private static func hex(_ bytes: Span<UInt8>, _ at: Int) -> UInt32 {
        (at..<at + 4).reduce(0) { value, place in
            let digit = bytes[place]
            return value << 4 | UInt32(digit < 0x40 ? digit & 0x0F : (digit & 0x0F) + 9)
        }
    }

    /// UTF-8 of a scalar.
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
