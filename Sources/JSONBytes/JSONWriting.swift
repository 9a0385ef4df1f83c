// Writes the daemon's records.
extension [UInt8] {
    /// Appends `text` as a JSON string with quotes and only the necessary escapes, so that it is read back byte for byte.
    public mutating func appendJSONString(_ text: String) {
        appendJSONString(utf8: Array(text.utf8))
    }

    /// Appends bytes that are valid UTF-8 (see `isValidUTF8`) as a JSON string; they are not checked again.
    public mutating func appendJSONString(utf8 bytes: [UInt8]) {
        append(ASCII.quote)
        let span = bytes.span
        var (plainFrom, at) = (0, 0)
        while true {
            at = Grammar.afterPlain(span, at)
            if at >= bytes.count { break }
            let byte = bytes[at]
            if byte < 0x80 {
                append(contentsOf: bytes[plainFrom..<at])
                appendEscape(of: byte)
                plainFrom = at + 1
            }
            at += 1
        }
        append(contentsOf: bytes[plainFrom...])
        append(ASCII.quote)
    }

    private mutating func appendEscape(of byte: UInt8) {
        append(ASCII.backslash)
        if let letter = letterOfEscape(of: byte) {
            append(letter)
        } else {
            append(contentsOf: "u00".utf8)
            appendHex(byte)
        }
    }
}

/// The byte after the backslash of an escape of two bytes; `nil` for a byte whose escape has six.
private func letterOfEscape(of byte: UInt8) -> UInt8? {
    switch byte {
    case ASCII.quote, ASCII.backslash: byte
    case 0x08: UInt8(ascii: "b")
    case 0x09: UInt8(ascii: "t")
    case 0x0A: UInt8(ascii: "n")
    case 0x0C: UInt8(ascii: "f")
    case 0x0D: UInt8(ascii: "r")
    default: nil
    }
}

/// The number of bytes that `appendJSONString` writes as six: control characters that occur nowhere in JSON.
public func countLongEscapes(_ bytes: [UInt8]) -> Int {
    var count = 0
    for byte in bytes where byte < 0x20 && letterOfEscape(of: byte) == nil { count += 1 }
    return count
}

/// Whether the bytes are valid UTF-8 (The Unicode Standard, table 3-7).
public func isValidUTF8(_ bytes: [UInt8]) -> Bool {
    let span = bytes.span
    var at = 0
    while true {
        at = Grammar.afterPlain(span, at)
        if at >= bytes.count { return true }
        if bytes[at] < 0x80 {
            at += 1
        } else {
            let length = Grammar.wideScalarLength(span, at)
            if length == 0 { return false }
            at += length
        }
    }
}

extension Unicode.Scalar {
    /// Whether it is a control character (C0, DEL or C1), which a terminal obeys instead of showing it.
    public var isControl: Bool { value < 0x20 || 0x7F...0x9F ~= value }

    /// Whether it is a control character or one of the separators U+2028 and U+2029, which some programs take for line breaks.
    public var isUnprintable: Bool { isControl || 0x2028...0x2029 ~= value }

    /// Whether it is unprintable, or an invisible character that changes the order of the characters around it on a terminal: the
    /// bidirectional and other format controls (The Unicode Standard, 23.2 to 23.8). The joiners U+200C and U+200D are part of
    /// words and of emoji, and are none of them. The log keeps these characters: it repeats a job byte for byte.
    public var misleadsTerminals: Bool {
        switch value {
        case 0x00AD, 0x061C, 0x180E, 0x200B, 0x200E...0x200F, 0x202A...0x202E, 0x2060...0x206F, 0xFEFF, 0xFFF9...0xFFFB: true
        default: isUnprintable
        }
    }
}

extension [UInt8] {
    /// Appends two hex digits.
    public mutating func appendHex(_ byte: UInt8) {
        for digit in [byte >> 4, byte & 15] { append(digit < 10 ? ASCII.zero + digit : UInt8(ascii: "a") + digit - 10) }
    }

    /// Appends `\u009b`, the JSON escape of a scalar of the first plane.
    public mutating func appendJSONEscape(_ scalar: UInt16) {
        append(contentsOf: [ASCII.backslash, UInt8(ascii: "u")])
        appendHex(UInt8(scalar >> 8))
        appendHex(UInt8(scalar & 0xFF))
    }

    /// Returns the same JSON with its unprintable characters escaped: valid JSON has them only inside strings, apart from white
    /// space, which stays.
    public func escapingUnprintable() -> [UInt8] {
        // The first bytes of DEL, of C1 and of the two separators in UTF-8.
        guard contains(where: { $0 == 0x7F || $0 == 0xC2 || $0 == 0xE2 }) else { return self }
        var result: [UInt8] = []
        result.reserveCapacity(count + 64)
        var at = 0
        while at < count {
            let next = at + 1 < count ? self[at + 1] : 0
            switch self[at] {
            case 0x7F:
                result.appendJSONEscape(0x7F)
                at += 1
            case 0xC2 where 0x80...0x9F ~= next:
                result.appendJSONEscape(UInt16(next))
                at += 2
            case 0xE2 where next == 0x80 && at + 2 < count && 0xA8...0xA9 ~= self[at + 2]:
                result.appendJSONEscape(0x2000 + UInt16(self[at + 2] & 0x3F))
                at += 3
            case let byte:
                result.append(byte)
                at += 1
            }
        }
        return result
    }
}
