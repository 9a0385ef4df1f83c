/// RFC 8259, sections 2 to 7, over bytes: each function takes the start of an element and returns its end.
///
/// Positions are never negative and are checked against the end of the bytes here, so that the unchecked reads in `byte` and
/// `afterPlain` stay inside.
enum Grammar {
    @inline(__always)
    static func afterSpace(_ bytes: Span<UInt8>, _ start: Int) -> Int {
        var at = start
        while true {
            let byte = byte(bytes, at)
            guard byte <= 0x20, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 else { return at }
            at &+= 1
        }
    }

    /// Returns the byte at a position, or 0 at the end of the text, where 0 is as invalid as a NUL.
    @inline(__always)
    static func byte(_ bytes: Span<UInt8>, _ at: Int) -> UInt8 {
        UInt(bitPattern: at) < UInt(bitPattern: bytes.count) ? unsafe bytes[unchecked: at] : 0
    }

    /// Reads the string whose opening quote is at `start`.
    @inline(__always)
    static func string(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> JSONSlice {
        var at = start + 1
        var hasEscapes = false
        while true {
            at = afterPlain(bytes, at)
            let byte = byte(bytes, at)
            if byte == ASCII.quote {
                return JSONSlice(range: start..<at &+ 1, kind: .string, hasEscapes: hasEscapes)
            }
            if byte == ASCII.backslash {
                hasEscapes = true
                at = try escape(bytes, from: at)
            } else if byte >= 0x80 {
                at = try wideScalars(bytes, from: at)
            } else {
                throw JSONError(offset: at, expected: at < bytes.count ? .noControlCharacter : .quote)
            }
        }
    }

    /// Skips ASCII without special meaning in a string, eight bytes per step.
    ///
    /// The top bit of each byte of `word` is set if the byte is not ASCII, is below 0x20, or equals the quote or the
    /// backslash. A borrow can set further bits, but only above the first true one, and only the first is used.
    @inline(__always)
    static func afterPlain(_ bytes: Span<UInt8>, _ start: Int) -> Int {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let tops: UInt64 = 0x8080_8080_8080_8080
        var at = start
        while at &+ 8 <= bytes.count {
            let word = UInt64(littleEndian: unsafe bytes.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: at, as: UInt64.self))
            let quotes = (word ^ (ones &* UInt64(ASCII.quote))) &- ones
            let backslashes = (word ^ (ones &* UInt64(ASCII.backslash))) &- ones
            let controls = word &- (ones &* 0x20)
            let stops = (quotes | backslashes | controls | word) & tops
            if stops != 0 { return at &+ (stops.trailingZeroBitCount >> 3) }
            at &+= 8
        }
        while isPlain(byte(bytes, at)) { at &+= 1 }
        return at
    }

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

    /// Reads the number that begins at `start` with a digit or a minus.
    @inline(__always)
    static func number(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        var at = bytes[start] == ASCII.minus ? start + 1 : start
        // A leading zero ends the integer part.
        at = byte(bytes, at) == ASCII.zero ? at + 1 : try digits(bytes, from: at)
        if byte(bytes, at) == ASCII.dot {
            at = try digits(bytes, from: at + 1)
        }
        if byte(bytes, at) | 0x20 == UInt8(ascii: "e") {
            let sign = byte(bytes, at + 1)
            at = try digits(bytes, from: sign == ASCII.plus || sign == ASCII.minus ? at + 2 : at + 1)
        }
        return at
    }

    /// Reads at least one digit.
    @inline(__always)
    private static func digits(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        var at = start
        while ASCII.isDigit(byte(bytes, at)) { at += 1 }
        guard at > start else { throw JSONError(offset: at, expected: .digit) }
        return at
    }

    /// Reads `true`, `false` or `null`.
    static func literal(_ bytes: Span<UInt8>, from start: Int, _ text: StaticString) throws(JSONError) -> Int {
        let end = start + text.utf8CodeUnitCount
        let isThere = text.withUTF8Buffer { text in
            for index in 0..<text.count where unsafe byte(bytes, start + index) != text[index] { return false }
            return true
        }
        guard isThere else { throw JSONError(offset: start, expected: .value) }
        return end
    }
}
