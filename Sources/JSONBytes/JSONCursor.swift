public import Glibc

/// Walks one JSON text (RFC 8259) from front to back and validates every byte it passes: grammar, and UTF-8 in strings.
///
/// It allocates nothing, has no nesting limit and does not recurse. Every call takes the same bytes:
///
///     var cursor = JSONCursor()
///     try cursor.enterObject(in: bytes)
///     while let key = try cursor.nextKey(in: bytes) {
///         let value = try cursor.value(in: bytes)  // or step into it: enterObject, enterArray
///     }
///     try cursor.finish(in: bytes)
public struct JSONCursor: Sendable {
    /// The next byte to look at.
    public private(set) var position: Int
    /// Whether the container was just entered, so that its next item has no comma before it.
    private var isAtFirst = false

    public init(at position: Int = 0) {
        precondition(position >= 0, "a place before the text: \(position)")
        self.position = position
    }

    /// Returns the kind of the next value, judged by one byte, or `nil` if no value can begin there. Skips only white space.
    public mutating func peek(in bytes: Span<UInt8>) -> JSONKind? {
        JSONKind(firstByte: Grammar.skipSpace(bytes, &position))
    }

    /// Enters an object; `nextKey` and `nextMember` return its members.
    public mutating func enterObject(in bytes: Span<UInt8>) throws(JSONError) {
        guard Grammar.skipSpace(bytes, &position) == ASCII.openBrace else {
            throw JSONError(offset: position, expected: .object)
        }
        position += 1
        isAtFirst = true
    }

    /// Enters an array; `advanceToElement` finds its elements.
    public mutating func enterArray(in bytes: Span<UInt8>) throws(JSONError) {
        guard Grammar.skipSpace(bytes, &position) == ASCII.openBracket else {
            throw JSONError(offset: position, expected: .array)
        }
        position += 1
        isAtFirst = true
    }

    /// Returns the next key of the object and moves the cursor before its value, which the caller must pass. Returns `nil` at
    /// the end of the object and moves the cursor behind it.
    public mutating func nextKey(in bytes: Span<UInt8>) throws(JSONError) -> JSONSlice? {
        guard var next = try advance(in: bytes, until: ASCII.closeBrace) else { return nil }
        defer { isAtFirst = false }
        return try Self.key(bytes, &position, &next, orEnd: isAtFirst)
    }

    /// Passes the next member of the object. Returns `nil` at the end of the object and moves the cursor behind it.
    public mutating func nextMember(in bytes: Span<UInt8>) throws(JSONError) -> (key: JSONSlice, value: JSONSlice)? {
        guard var next = try advance(in: bytes, until: ASCII.closeBrace) else { return nil }
        var at = position
        let key = try Self.key(bytes, &at, &next, orEnd: isAtFirst)
        isAtFirst = false
        let value = try Self.value(bytes, from: at, next)
        position = value.range.upperBound
        return (key, value)
    }

    /// Whether the array has another element; moves the cursor before it, or behind the array.
    public mutating func advanceToElement(in bytes: Span<UInt8>) throws(JSONError) -> Bool {
        guard let next = try advance(in: bytes, until: ASCII.closeBracket) else { return false }
        guard !isAtFirst || JSONKind(firstByte: next) != nil else {
            throw JSONError(offset: position, expected: .valueOrArrayEnd)
        }
        isAtFirst = false
        return true
    }

    /// Passes one whole value.
    public mutating func value(in bytes: Span<UInt8>) throws(JSONError) -> JSONSlice {
        let first = Grammar.skipSpace(bytes, &position)
        let value = try Self.value(bytes, from: position, first)
        position = value.range.upperBound
        isAtFirst = false
        return value
    }

    /// Checks that only white space is left.
    public mutating func finish(in bytes: Span<UInt8>) throws(JSONError) {
        _ = Grammar.skipSpace(bytes, &position)
        guard position == bytes.count else { throw JSONError(offset: position, expected: .end) }
    }

    /// Passes the comma, if one is due, and moves to the next item of a container. Returns its first byte, or `nil` at the end of
    /// the container, and moves behind it.
    @inline(__always)
    private mutating func advance(in bytes: Span<UInt8>, until closer: UInt8) throws(JSONError) -> UInt8? {
        var at = position
        defer { position = at }
        let next = Grammar.skipSpace(bytes, &at)
        if next == closer {
            at &+= 1
            isAtFirst = false
            return nil
        }
        if isAtFirst { return next }
        guard next == ASCII.comma else { throw Self.missingComma(before: next, at: at, closer: closer) }
        at &+= 1
        return Grammar.skipSpace(bytes, &at)
    }
}

// Each function takes the position of an element and its first byte.
extension JSONCursor {
    /// Passes a key with its colon, and moves to its value. `orEnd`: the object may also end here.
    @inline(__always)
    private static func key(
        _ bytes: Span<UInt8>, _ at: inout Int, _ next: inout UInt8, orEnd: Bool
    ) throws(JSONError) -> JSONSlice {
        guard next == ASCII.quote else { throw JSONError(offset: at, expected: orEnd ? .keyOrEnd : .key) }
        let start = at
        var hasEscapes = false
        try Grammar.string(bytes, &at, &hasEscapes)
        let key = JSONSlice(range: unsafe Range(uncheckedBounds: (start, at)), kind: .string, hasEscapes: hasEscapes)
        guard Grammar.skipSpace(bytes, &at) == ASCII.colon else { throw JSONError(offset: at, expected: .colon) }
        at &+= 1
        next = Grammar.skipSpace(bytes, &at)
        return key
    }

    /// Passes a whole value.
    @inline(__always)
    private static func value(_ bytes: Span<UInt8>, from start: Int, _ first: UInt8) throws(JSONError) -> JSONSlice {
        var at = start
        var hasEscapes = false
        var keys = JSONKeyFilter()
        let kind: JSONKind
        if first == ASCII.openBrace || first == ASCII.openBracket {
            kind = first == ASCII.openBrace ? .object : .array
            (at, hasEscapes, keys) = try container(bytes, at, first)
        } else {
            kind = try scalar(bytes, &at, first, &hasEscapes)
        }
        return JSONSlice(range: unsafe Range(uncheckedBounds: (start, at)), kind: kind, hasEscapes: hasEscapes, keys: keys)
    }

    /// Passes a value that contains no other.
    @inline(__always)
    private static func scalar(
        _ bytes: Span<UInt8>, _ at: inout Int, _ first: UInt8, _ hasEscapes: inout Bool
    ) throws(JSONError) -> JSONKind {
        if first == ASCII.quote {
            try Grammar.string(bytes, &at, &hasEscapes)
            return .string
        }
        if ASCII.isDigit(first) || first == ASCII.minus {
            at = try Grammar.number(bytes, from: at)
            return .number
        }
        let literal = try Grammar.literal(bytes, from: at, first)
        at = literal.end
        return literal.kind
    }

    /// Passes a whole object or array. `hasEscapes`: one of its strings contains a backslash.
    private static func container(
        _ bytes: Span<UInt8>, _ start: Int, _ first: UInt8
    ) throws(JSONError) -> (end: Int, hasEscapes: Bool, keys: JSONKeyFilter) {
        var at = start &+ 1
        var hasEscapes = false
        var keys = JSONKeyFilter()
        var nesting = Nesting()
        nesting.open(isObject: first == ASCII.openBrace)
        var isAtFirst = true
        while true {
            var next = Grammar.skipSpace(bytes, &at)
            let isObject = nesting.isInObject
            let closer = isObject ? ASCII.closeBrace : ASCII.closeBracket
            if next == closer {
                at &+= 1
                if nesting.close() { return (at, hasEscapes, keys) }
                isAtFirst = false
                continue
            }
            if !isAtFirst {
                guard next == ASCII.comma else { throw missingComma(before: next, at: at, closer: closer) }
                at &+= 1
                next = Grammar.skipSpace(bytes, &at)
            }
            if isObject {
                let start = at
                if try key(bytes, &at, &next, orEnd: isAtFirst).hasEscapes { hasEscapes = true }
                keys.insert(bytes, keyAt: start)
            } else if isAtFirst, JSONKind(firstByte: next) == nil {
                throw JSONError(offset: at, expected: .valueOrArrayEnd)
            }
            isAtFirst = next == ASCII.openBrace || next == ASCII.openBracket
            if isAtFirst {
                nesting.open(isObject: next == ASCII.openBrace)
                at &+= 1
            } else {
                _ = try scalar(bytes, &at, next, &hasEscapes)
            }
        }
    }

    /// Before another item only the comma is missing; otherwise the end may be missing instead.
    private static func missingComma(before next: UInt8, at offset: Int, closer: UInt8) -> JSONError {
        if closer == ASCII.closeBrace {
            return JSONError(offset: offset, expected: next == ASCII.quote ? .comma : .commaOrObjectEnd)
        }
        return JSONError(offset: offset, expected: JSONKind(firstByte: next) != nil ? .comma : .commaOrArrayEnd)
    }
}

extension JSONKind {
    @inline(__always)
    init?(firstByte: UInt8) {
        switch firstByte {
        case ASCII.openBrace: self = .object
        case ASCII.openBracket: self = .array
        case ASCII.quote: self = .string
        case ASCII.minus, ASCII.zero...ASCII.nine: self = .number
        case UInt8(ascii: "t"), UInt8(ascii: "f"): self = .bool
        case UInt8(ascii: "n"): self = .null
        default: return nil
        }
    }
}

/// The open containers, innermost last, with one bit each, so that depth costs almost nothing.
struct Nesting {
    /// The innermost 63 at most, the last in the lowest bit, below a bit that is set; 1 is an object.
    private var word: UInt64 = 1
    /// Full words of the outer containers, allocated only beyond a depth of 63.
    private var outer: [UInt64] = []

    var isInObject: Bool { word & 1 != 0 }

    mutating func open(isObject: Bool) {
        if word >> 63 != 0 {
            outer.append(word)
            word = 1
        }
        word = word << 1 | (isObject ? 1 : 0)
    }

    /// Closes the innermost container. Returns whether it was the last one.
    mutating func close() -> Bool {
        word >>= 1
        if word != 1 { return false }
        guard let full = outer.popLast() else { return true }
        word = full
        return false
    }
}

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
