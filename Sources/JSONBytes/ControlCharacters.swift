extension Unicode.Scalar {
    /// Whether it is a control character (C0, DEL or C1), which a terminal obeys instead of showing it.
    public var isControl: Bool { value < 0x20 || 0x7F...0x9F ~= value }

    /// Whether it is a control character, or an invisible one that changes the order or the breaks of the characters around it
    /// on a terminal: the separators U+2028 and U+2029, and the bidirectional and other format controls (The Unicode Standard,
    /// 23.2 to 23.8). The joiners U+200C and U+200D are part of words and of emoji, and are none of them.
    public var isUnprintable: Bool {
        switch value {
        case 0x00AD, 0x061C, 0x180E, 0x200B, 0x200E...0x200F, 0x2028...0x202E, 0x2060...0x206F, 0xFEFF, 0xFFF9...0xFFFB: true
        default: isControl
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
        guard contains(where: beginsUnprintable) else { return self }
        var result: [UInt8] = []
        result.reserveCapacity(count + 64)
        var at = 0
        while at < count {
            let length = self[at] >= 0xE0 ? 3 : self[at] >= 0xC0 ? 2 : 1
            if beginsUnprintable(self[at]), at + length <= count {
                let tail = self[at + 1..<at + length]
                let head = length == 3 ? self[at] & 0x0F : length == 2 ? self[at] & 0x1F : self[at]
                let code = tail.reduce(UInt16(head)) { $0 << 6 | UInt16($1 & 0x3F) }
                if tail.allSatisfy({ $0 & 0xC0 == 0x80 }), Unicode.Scalar(code)?.isUnprintable == true {
                    result.appendJSONEscape(code)
                    at += length
                    continue
                }
            }
            result.append(self[at])
            at += 1
        }
        return result
    }
}

/// Whether an unprintable character may begin with this byte in UTF-8: DEL, or any of the others.
private func beginsUnprintable(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x7F, 0xC2, 0xD8, 0xE1, 0xE2, 0xEF: true
    default: false
    }
}
