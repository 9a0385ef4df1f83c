/// UUIDs as text of 36 bytes.
enum UUIDText {
    private static let digits: [UInt8] = Array("0123456789ABCDEF".utf8)

    /// Appends a version 4 UUID with 122 of these bits.
    static func append(_ high: UInt64, _ low: UInt64, to bytes: inout [UInt8]) {
        let high = high & ~0xF000 | 0x4000
        let low = low & ~(0xC << 60) | (0x8 << 60)
        for place in 0..<32 {
            if place == 8 || place == 12 || place == 16 || place == 20 { bytes.append(UInt8(ascii: "-")) }
            let word = place < 16 ? high : low
            bytes.append(digits[Int(word >> UInt64((15 - place & 15) * 4) & 15)])
        }
    }

    /// Returns whether the text has 8-4-4-4-12 hex digits, in any case.
    static func isValid(_ text: Span<UInt8>) -> Bool {
        guard text.count == 36 else { return false }
        for place in text.indices {
            let isDash = place == 8 || place == 13 || place == 18 || place == 23
            if isDash ? text[place] != UInt8(ascii: "-") : !text[place].isHexDigit { return false }
        }
        return true
    }
}
