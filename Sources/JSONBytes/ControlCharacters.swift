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
