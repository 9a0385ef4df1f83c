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
        position = Grammar.afterSpace(bytes, position)
        return JSONKind(firstByte: Grammar.byte(bytes, position))
    }

    /// Enters an object; `nextKey` returns its members.
    public mutating func enterObject(in bytes: Span<UInt8>) throws(JSONError) {
        position = Grammar.afterSpace(bytes, position)
        guard Grammar.byte(bytes, position) == ASCII.openBrace else {
            throw JSONError(offset: position, expected: .object)
        }
        position += 1
        isAtFirst = true
    }

    /// Enters an array; `advanceToElement` finds its elements.
    public mutating func enterArray(in bytes: Span<UInt8>) throws(JSONError) {
        position = Grammar.afterSpace(bytes, position)
        guard Grammar.byte(bytes, position) == ASCII.openBracket else {
            throw JSONError(offset: position, expected: .array)
        }
        position += 1
        isAtFirst = true
    }

    /// Returns the next key of the object and moves the cursor before its value, which the caller must pass. Returns `nil` at
    /// the end of the object and moves the cursor behind it.
    public mutating func nextKey(in bytes: Span<UInt8>) throws(JSONError) -> JSONSlice? {
        guard try advance(in: bytes, until: ASCII.closeBrace) else { return nil }
        let (key, end) = try Self.key(bytes, from: position, orEnd: isAtFirst)
        isAtFirst = false
        position = end
        return key
    }

    /// Whether the array has another element; moves the cursor before it, or behind the array.
    public mutating func advanceToElement(in bytes: Span<UInt8>) throws(JSONError) -> Bool {
        guard try advance(in: bytes, until: ASCII.closeBracket) else { return false }
        guard !isAtFirst || JSONKind(firstByte: Grammar.byte(bytes, position)) != nil else {
            throw JSONError(offset: position, expected: .valueOrArrayEnd)
        }
        isAtFirst = false
        return true
    }

    /// Passes one whole value.
    public mutating func value(in bytes: Span<UInt8>) throws(JSONError) -> JSONSlice {
        let start = Grammar.afterSpace(bytes, position)
        let value =
            switch Grammar.byte(bytes, start) {
            case ASCII.openBrace: JSONSlice(range: start..<(try Self.container(bytes, from: start)), kind: .object)
            case ASCII.openBracket: JSONSlice(range: start..<(try Self.container(bytes, from: start)), kind: .array)
            default: try Self.scalar(bytes, from: start)
            }
        position = value.range.upperBound
        isAtFirst = false
        return value
    }

    /// Checks that only white space is left.
    public mutating func finish(in bytes: Span<UInt8>) throws(JSONError) {
        position = Grammar.afterSpace(bytes, position)
        guard position == bytes.count else { throw JSONError(offset: position, expected: .end) }
    }

    /// Passes the comma, if one is due, to the next item of a container. Returns false at the end of the container and moves
    /// behind it.
    @inline(__always)
    private mutating func advance(in bytes: Span<UInt8>, until closer: UInt8) throws(JSONError) -> Bool {
        position = Grammar.afterSpace(bytes, position)
        let next = Grammar.byte(bytes, position)
        if next == closer {
            position += 1
            isAtFirst = false
            return false
        }
        if isAtFirst { return true }
        guard next == ASCII.comma else { throw Self.missingComma(before: next, at: position, closer: closer) }
        position = Grammar.afterSpace(bytes, position + 1)
        return true
    }
}

extension JSONCursor {
    /// Reads a key with its colon. Returns it and the start of its value. `orEnd`: the object may also end here.
    @inline(__always)
    private static func key(
        _ bytes: Span<UInt8>, from start: Int, orEnd: Bool
    ) throws(JSONError) -> (JSONSlice, Int) {
        guard Grammar.byte(bytes, start) == ASCII.quote else {
            throw JSONError(offset: start, expected: orEnd ? .keyOrEnd : .key)
        }
        let key = try Grammar.string(bytes, from: start)
        let colon = Grammar.afterSpace(bytes, key.range.upperBound)
        guard Grammar.byte(bytes, colon) == ASCII.colon else { throw JSONError(offset: colon, expected: .colon) }
        return (key, Grammar.afterSpace(bytes, colon + 1))
    }

    /// Reads a value that contains no other.
    @inline(__always)
    private static func scalar(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> JSONSlice {
        switch Grammar.byte(bytes, start) {
        case ASCII.quote:
            return try Grammar.string(bytes, from: start)
        case ASCII.minus, ASCII.zero...ASCII.nine:
            return JSONSlice(range: start..<(try Grammar.number(bytes, from: start)), kind: .number)
        case UInt8(ascii: "t"):
            return JSONSlice(range: start..<(try Grammar.literal(bytes, from: start, "true")), kind: .bool)
        case UInt8(ascii: "f"):
            return JSONSlice(range: start..<(try Grammar.literal(bytes, from: start, "false")), kind: .bool)
        case UInt8(ascii: "n"):
            return JSONSlice(range: start..<(try Grammar.literal(bytes, from: start, "null")), kind: .null)
        default:
            throw JSONError(offset: start, expected: .value)
        }
    }

    /// Reads a whole object or array that begins at `start`. Returns its end.
    private static func container(_ bytes: Span<UInt8>, from start: Int) throws(JSONError) -> Int {
        var nesting = Nesting()
        var at = start
        while true {
            // A value begins here.
            let first = Grammar.byte(bytes, at)
            if first == ASCII.openBrace || first == ASCII.openBracket {
                let isObject = first == ASCII.openBrace
                nesting.open(isObject: isObject)
                at = Grammar.afterSpace(bytes, at + 1)
                let next = Grammar.byte(bytes, at)
                if next != (isObject ? ASCII.closeBrace : ASCII.closeBracket) {
                    if isObject {
                        (_, at) = try key(bytes, from: at, orEnd: true)
                    } else if JSONKind(firstByte: next) == nil {
                        throw JSONError(offset: at, expected: .valueOrArrayEnd)
                    }
                    continue
                }
            } else {
                at = try scalar(bytes, from: at).range.upperBound
            }
            // A value has ended; its container may end too.
            while true {
                at = Grammar.afterSpace(bytes, at)
                let next = Grammar.byte(bytes, at)
                let closer = nesting.isInObject ? ASCII.closeBrace : ASCII.closeBracket
                at += 1
                if next == ASCII.comma {
                    at = Grammar.afterSpace(bytes, at)
                    if nesting.isInObject { (_, at) = try key(bytes, from: at, orEnd: false) }
                    break
                }
                guard next == closer else { throw missingComma(before: next, at: at - 1, closer: closer) }
                nesting.close()
                if nesting.depth == 0 { return at }
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
