/// RFC 8259, sections 2 to 7, over bytes. Each function takes the start of an element, and returns its end or moves to it.
///
/// Positions are never negative and are checked against the end of the bytes here, so that the unchecked reads stay inside.
enum Grammar {
    /// Skips white space. Returns the byte behind it, as `byte` does.
    @inline(__always)
    static func skipSpace(_ bytes: Span<UInt8>, _ at: inout Int) -> UInt8 {
        while true {
            let byte = byte(bytes, at)
            guard byte <= 0x20, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return byte }
            at &+= 1
        }
    }

    /// Returns the byte at a position, or 0 at the end of the text, where 0 is as invalid as a NUL.
    @inline(__always)
    static func byte(_ bytes: Span<UInt8>, _ at: Int) -> UInt8 {
        UInt(bitPattern: at) < UInt(bitPattern: bytes.count) ? unsafe bytes[unchecked: at] : 0
    }

    /// Passes the string whose opening quote is at the position. Sets `hasEscapes` if it contains a backslash.
    @inline(__always)
    static func string(_ bytes: Span<UInt8>, _ at: inout Int, _ hasEscapes: inout Bool) throws(JSONError) {
        at = afterPlain(bytes, at &+ 1)
        if byte(bytes, at) != ASCII.quote {
            let (end, isEscaped) = try restOfString(bytes, from: at)
            at = end
            if isEscaped { hasEscapes = true }
        }
        at &+= 1
    }

    /// Finds the closing quote of a string, from a byte that is not plain.
    @inline(never)
    private static func restOfString(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> (end: Int, hasEscapes: Bool) {
        var at = start
        var hasEscapes = false
        while true {
            let byte = byte(bytes, at)
            if byte == ASCII.quote { return (at, hasEscapes) }
            if byte == ASCII.backslash {
                hasEscapes = true
                at = try escape(bytes, from: at)
            } else if byte >= 0x80 {
                at = try wideScalars(bytes, from: at)
            } else {
                throw JSONError(offset: at, expected: at < bytes.count ? .noControlCharacter : .quote)
            }
            at = afterPlain(bytes, at)
        }
    }

    /// Skips ASCII without special meaning in a string. Most strings end within the first eight bytes, or are long.
    @inline(__always)
    static func afterPlain(_ bytes: Span<UInt8>, _ start: Int) -> Int {
        guard start &+ 8 <= bytes.count else { return afterLongPlain(bytes, start) }
        let word = unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: start, as: UInt64.self)
        let stops = stops(SIMD2<UInt64>(word, 0))[0]
        return stops == 0 ? afterLongPlain(bytes, start &+ 8) : start &+ firstByte(stops)
    }

    /// Does the same, 16 bytes per step.
    @inline(never)
    private static func afterLongPlain(_ bytes: Span<UInt8>, _ start: Int) -> Int {
        var at = start
        while at &+ 16 <= bytes.count {
            let chunk = unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: at, as: SIMD2<UInt64>.self)
            let stops = stops(chunk)
            if stops[0] | stops[1] != 0 {
                return at &+ (stops[0] != 0 ? firstByte(stops[0]) : 8 &+ firstByte(stops[1]))
            }
            at &+= 16
        }
        while isPlain(byte(bytes, at)) { at &+= 1 }
        return at
    }

    /// Sets all bits of each byte that is not plain, and clears the others.
    ///
    /// As a signed number a byte beyond ASCII is negative. With inferred types the comparisons would call generic functions.
    @inline(__always)
    private static func stops(_ chunk: SIMD2<UInt64>) -> SIMD2<UInt64> {
        let chunk = unsafe unsafeBitCast(chunk, to: SIMD16<Int8>.self)
        let stops =
            (chunk .< SIMD16<Int8>(repeating: 0x20)) .| (chunk .== SIMD16<Int8>(repeating: 0x22))
            .| (chunk .== SIMD16<Int8>(repeating: 0x5C))
        return unsafe unsafeBitCast(stops, to: SIMD2<UInt64>.self)
    }

    /// Returns the index of the first byte that is set.
    @inline(__always)
    private static func firstByte(_ word: UInt64) -> Int { UInt64(littleEndian: word).trailingZeroBitCount &>> 3 }

    @inline(__always)
    private static func isPlain(_ byte: UInt8) -> Bool {
        0x20..<0x80 ~= byte && byte != ASCII.quote && byte != ASCII.backslash
    }

    /// The grammar allows a lone surrogate (RFC 8259, section 8.2), so any four hex digits are valid.
    private static func escape(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        switch byte(bytes, start + 1) {
        case ASCII.quote, ASCII.backslash, UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"), UInt8(ascii: "n"),
            UInt8(ascii: "r"), UInt8(ascii: "t"):
            return start + 2
        case UInt8(ascii: "u"):
            for at in start + 2..<start + 6 where ASCII.hexValue(byte(bytes, at)) == nil {
                throw JSONError(offset: at, expected: .hexDigit)
            }
            return start + 6
        default:
            throw JSONError(offset: start + 1, expected: .escape)
        }
    }

    /// Reads a run of scalars beyond ASCII.
    private static func wideScalars(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        var at = start
        repeat {
            let length = wideScalarLength(bytes, at)
            guard length > 0 else { throw JSONError(offset: at, expected: .validUTF8) }
            at += length
        } while byte(bytes, at) >= 0x80
        return at
    }

    /// Returns the length of the scalar beyond ASCII at a position, or 0 if the bytes are ill-formed (The Unicode Standard,
    /// table 3-7: no overlong forms, no surrogates, nothing above U+10FFFF).
    static func wideScalarLength(_ bytes: Span<UInt8>, _ at: Int) -> Int {
        let first = bytes[at]
        let second = byte(bytes, at + 1)
        switch first {
        case 0xC2...0xDF:
            return isContinuation(second) ? 2 : 0
        case 0xE0...0xEF:
            let least: UInt8 = first == 0xE0 ? 0xA0 : 0x80
            let most: UInt8 = first == 0xED ? 0x9F : 0xBF
            return least...most ~= second && isContinuation(byte(bytes, at + 2)) ? 3 : 0
        case 0xF0...0xF4:
            let least: UInt8 = first == 0xF0 ? 0x90 : 0x80
            let most: UInt8 = first == 0xF4 ? 0x8F : 0xBF
            let isWhole = isContinuation(byte(bytes, at + 2)) && isContinuation(byte(bytes, at + 3))
            return least...most ~= second && isWhole ? 4 : 0
        default:
            return 0
        }
    }

    @inline(__always)
    private static func isContinuation(_ byte: UInt8) -> Bool { byte & 0xC0 == 0x80 }

    /// Reads the number that begins at `start` with a digit or a minus. Returns its end.
    @inline(never)
    static func number(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        var at = start
        if byte(bytes, at) == ASCII.minus { at &+= 1 }
        // A leading zero ends the integer part.
        if byte(bytes, at) == ASCII.zero { at &+= 1 } else { try digits(bytes, &at) }
        if byte(bytes, at) == ASCII.dot {
            at &+= 1
            try digits(bytes, &at)
        }
        if byte(bytes, at) | 0x20 == UInt8(ascii: "e") {
            at &+= 1
            let sign = byte(bytes, at)
            if sign == ASCII.plus || sign == ASCII.minus { at &+= 1 }
            try digits(bytes, &at)
        }
        return at
    }

    /// Passes at least one digit.
    @inline(__always)
    private static func digits(_ bytes: Span<UInt8>, _ at: inout Int) throws(JSONError) {
        let start = at
        while ASCII.isDigit(byte(bytes, at)) { at &+= 1 }
        guard at > start else { throw JSONError(offset: at, expected: .digit) }
    }

    /// Reads the value at `start` that begins with this byte, or refuses the byte. Returns its end.
    @inline(never)
    static func literal(_ bytes: Span<UInt8>, from start: Int, _ first: UInt8) throws(JSONError) -> (end: Int, kind: JSONKind) {
        let (text, kind): (StaticString, JSONKind) =
            switch first {
            case UInt8(ascii: "t"): ("true", .bool)
            case UInt8(ascii: "f"): ("false", .bool)
            default: ("null", .null)
            }
        for index in 0..<text.utf8CodeUnitCount where unsafe byte(bytes, start + index) != text.utf8Start[index] {
            throw JSONError(offset: start, expected: .value)
        }
        return (start + text.utf8CodeUnitCount, kind)
    }
}

/// The bytes that JSON's grammar is made of.
enum ASCII {
    static let quote = UInt8(ascii: "\"")
    static let backslash = UInt8(ascii: "\\")
    static let comma = UInt8(ascii: ",")
    static let colon = UInt8(ascii: ":")
    static let minus = UInt8(ascii: "-")
    static let plus = UInt8(ascii: "+")
    static let dot = UInt8(ascii: ".")
    static let zero = UInt8(ascii: "0")
    static let nine = UInt8(ascii: "9")
    static let openBrace = UInt8(ascii: "{")
    static let closeBrace = UInt8(ascii: "}")
    static let openBracket = UInt8(ascii: "[")
    static let closeBracket = UInt8(ascii: "]")

    @inline(__always)
    static func isDigit(_ byte: UInt8) -> Bool { byte &- zero <= 9 }

    static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
