public import Glibc

/// One value of a JSON text, as a range of the text's own bytes.
public struct JSONSlice: Sendable, Equatable {
    /// From the value's first byte to the end of its last, including quotes, braces and brackets.
    public var range: Range<Int>
    public var kind: JSONKind
    /// Whether a string contains a backslash, so that its bytes differ from its text, or an object or array has such a string.
    public var hasEscapes: Bool
    /// The keys without escapes in an object or array, at any depth.
    public var keys: JSONKeyFilter

    public init(range: Range<Int>, kind: JSONKind, hasEscapes: Bool = false, keys: JSONKeyFilter = JSONKeyFilter()) {
        self.range = range
        self.kind = kind
        self.hasEscapes = hasEscapes
        self.keys = keys
    }

    /// The range between the quotes of a string; the whole value for any other kind.
    public var content: Range<Int> {
        kind == .string ? range.lowerBound + 1..<range.upperBound - 1 : range
    }
}

// The meaning of a validated slice. Every function takes the bytes from which the slice was cut.
extension JSONSlice {
    /// Returns the text of a string as UTF-8 with escapes decoded, or the bytes of any other kind. A lone surrogate
    /// (`\ud800`), which the grammar allows and UTF-8 cannot represent, becomes U+FFFD.
    public func utf8(in bytes: Span<UInt8>) -> [UInt8] {
        let content = content
        var text: [UInt8] = []
        text.reserveCapacity(content.count)
        var at = content.lowerBound
        while at < content.upperBound {
            if bytes[at] == ASCII.backslash, kind == .string {
                let (scalar, next) = JSONEscape.scalar(bytes, at: at)
                text.append(contentsOf: String(Unicode.Scalar(scalar) ?? "\u{FFFD}").utf8)
                at = next
            } else {
                text.append(bytes[at])
                at += 1
            }
        }
        return text
    }

    /// Returns the same as a `String`.
    public func text(in bytes: Span<UInt8>) -> String {
        if hasEscapes, kind == .string { return String(decoding: utf8(in: bytes), as: UTF8.self) }
        return unsafe bytes.extracting(content).withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
    }

    /// Whether the text of a string is `text`, which must be ASCII: `"\u0074oken"` equals `token`.
    ///
    /// Inlined into callers, where `text` is a constant, so that the compiler compares words.
    @inlinable @inline(__always)
    public func equals(_ text: StaticString, in bytes: Span<UInt8>) -> Bool {
        if hasEscapes { return isEqualUnescaped(text, in: bytes) }
        let count = text.utf8CodeUnitCount
        guard range.count - 2 == count else { return false }
        precondition(range.lowerBound >= 0 && range.upperBound <= bytes.count, "a slice of another text")
        return unsafe bytes.withUnsafeBytes { bytes in
            unsafe memcmp(bytes.baseAddress! + range.lowerBound + 1, text.utf8Start, count) == 0
        }
    }

    @usableFromInline
    func isEqualUnescaped(_ text: StaticString, in bytes: Span<UInt8>) -> Bool {
        let decoded = utf8(in: bytes)
        return text.withUTF8Buffer { unsafe decoded.elementsEqual($0) }
    }

    /// Returns the integer of a number that consists of digits. Returns `nil` for other kinds and for `1.0` and `1e3`.
    public func integer(in bytes: Span<UInt8>) -> JSONInteger? {
        guard kind == .number else { return nil }
        let isNegative = bytes[range.lowerBound] == ASCII.minus
        let digits = (isNegative ? range.lowerBound + 1 : range.lowerBound)..<range.upperBound
        guard digits.count <= 18 else { return longInteger(in: bytes, digits, isNegative: isNegative) }
        precondition(range.upperBound <= bytes.count, "a slice of another text")
        var value: Int64 = 0  // 18 digits can't overflow it.
        for index in digits {
            let byte = unsafe bytes[unchecked: index]
            guard ASCII.isDigit(byte) else { return nil }
            value = value &* 10 &+ Int64(byte & 15)
        }
        return .exact(isNegative ? 0 &- value : value)
    }

    @inline(never)
    private func longInteger(in bytes: Span<UInt8>, _ digits: Range<Int>, isNegative: Bool) -> JSONInteger? {
        for index in digits where !ASCII.isDigit(bytes[index]) { return nil }
        return Int64(text(in: bytes)).map { .exact($0) } ?? .outOfRange(isNegative: isNegative)
    }

    /// Returns the nearest `Double` of a number, infinite for `1e999`. Returns `nil` for other kinds.
    public func double(in bytes: Span<UInt8>) -> Double? {
        kind == .number ? Double(text(in: bytes)) : nil
    }
}

/// A set of keys that never misses one, and sometimes reports one that it does not contain: a bit for each hash of the first two
/// bytes. Few payloads have the keys that determine a push type, and a filter tells it without a search.
public struct JSONKeyFilter: Sendable, Equatable {
    @usableFromInline var bits: UInt32 = 0

    @inlinable
    public init() {}

    /// Inserts a key whose opening quote is at `quote`. The quote behind the key, and the colon, keep both reads within the text.
    @inline(__always)
    mutating func insert(_ bytes: Span<UInt8>, keyAt quote: Int) {
        bits |= unsafe JSONKeyFilter.bit(bytes[unchecked: quote &+ 1], bytes[unchecked: quote &+ 2])
    }

    /// Whether a key may begin with these two characters.
    @inlinable @inline(__always)
    public func mayHaveKey(_ first: Unicode.Scalar, _ second: Unicode.Scalar) -> Bool {
        bits & JSONKeyFilter.bit(UInt8(ascii: first), UInt8(ascii: second)) != 0
    }

    /// Multiplier and shift separate the beginnings of "content-…", "attributes" and "mdm" from those of 90 keys that are usual
    /// in payloads (found by trying all).
    @inlinable @inline(__always)
    static func bit(_ first: UInt8, _ second: UInt8) -> UInt32 {
        1 &<< (((UInt32(first) | UInt32(second) << 8) &* 195) &>> 10)
    }
}

/// The kind of a JSON value, which its first byte tells.
public enum JSONKind: Sendable, Equatable {
    case object, array, string, number, bool, null
}

/// An integer of a JSON text.
public enum JSONInteger: Sendable, Equatable {
    case exact(Int64)
    /// Outside of signed 64 bits.
    case outOfRange(isNegative: Bool)
}

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
