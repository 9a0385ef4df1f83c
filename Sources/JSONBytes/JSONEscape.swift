/// The escapes of a JSON string that is known to be valid.
public enum JSONEscape {
    /// Decodes the escape whose backslash stands at `at`. A lone surrogate (`\ud800`), which the grammar allows and UTF-8 cannot
    /// hold, becomes U+FFFD.
    ///
    /// - Returns: also the place behind the escape.
    public static func scalar(_ bytes: Span<UInt8>, at: Int) -> (scalar: UInt32, next: Int) {
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
        // The closing quote keeps both reads within the text.
        if unit < 0xDC00, bytes[at + 6] == ASCII.backslash, bytes[at + 7] == UInt8(ascii: "u") {
            let low = hex(bytes, at + 8)
            if 0xDC00...0xDFFF ~= low { return (0x10000 + (unit - 0xD800) << 10 + (low - 0xDC00), at + 12) }
        }
        return (0xFFFD, at + 6)
    }

    private static func hex(_ bytes: Span<UInt8>, _ at: Int) -> UInt32 {
        (at..<at + 4).reduce(0) { $0 << 4 | UInt32(ASCII.hexValue(bytes[$1]) ?? 0) }
    }
}
