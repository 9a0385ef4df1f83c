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
