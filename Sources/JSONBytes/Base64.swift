/// Base64 (RFC 4648).
public enum Base64 {
    public enum Variant: Sendable {
        /// The standard alphabet with padding (section 4).
        case standard
        /// The alphabet for URLs and file names, without padding (section 5), as JWTs use it (RFC 7515, 2).
        case url
    }

    private static let padding = UInt8(ascii: "=")
    private static let alphabet: [UInt8] = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    private static let urlAlphabet: [UInt8] = alphabet.dropLast(2) + Array("-_".utf8)

    public static func encode(_ bytes: [UInt8], as variant: Variant = .standard) -> [UInt8] {
        let alphabet = variant == .url ? urlAlphabet : alphabet
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count + 2) / 3 * 4)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let count = min(3, bytes.count - start)
            var group: UInt32 = 0
            for index in 0..<3 { group = group << 8 | (index < count ? UInt32(bytes[start + index]) : 0) }
            for index in 0...count { text.append(alphabet[Int(group >> UInt32(18 - 6 * index) & 63)]) }
            if variant == .standard { text.append(contentsOf: repeatElement(padding, count: 3 - count)) }
        }
        return text
    }

    /// Decodes the standard variant.
    public static func decode(_ text: [UInt8]) -> [UInt8]? { decode(text, as: .standard) }

    /// Returns `nil` for a text that `encode` never writes: other characters, wrong length or padding, bits after the last byte.
    public static func decode(_ text: some BidirectionalCollection<UInt8>, as variant: Variant) -> [UInt8]? {
        var digits = text[...]
        if variant == .standard {
            guard text.count % 4 == 0 else { return nil }
            for _ in 0..<2 where digits.last == padding { digits = digits.dropLast() }
        } else if text.count % 4 == 1 {
            return nil
        }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(digits.count / 4 * 3 + 2)
        var bits: UInt32 = 0
        var held = 0
        for character in digits {
            guard let digit = value(of: character, in: variant) else { return nil }
            bits = bits << 6 | digit
            held += 6
            if held >= 8 {
                held -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(held)))
                bits &= 1 << UInt32(held) - 1
            }
        }
        return bits == 0 ? bytes : nil
    }

    private static func value(of character: UInt8, in variant: Variant) -> UInt32? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(character - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(character - UInt8(ascii: "a")) + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(character - UInt8(ascii: "0")) + 52
        case UInt8(ascii: "+") where variant == .standard: 62
        case UInt8(ascii: "/") where variant == .standard: 63
        case UInt8(ascii: "-") where variant == .url: 62
        case UInt8(ascii: "_") where variant == .url: 63
        default: nil
        }
    }
}
