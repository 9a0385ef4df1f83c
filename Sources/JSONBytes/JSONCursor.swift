/// Walks one JSON text (RFC 8259) from front to back and validates every byte it passes: grammar, and UTF-8 in strings.
///
/// It allocates nothing, has no limit of nesting and does not recurse. The bytes are handed to each call, always the same ones:
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
    /// Whether the container was just entered, so that its next item comes without a comma.
    private var isAtFirst = false

    public init(at position: Int = 0) {
        precondition(position >= 0, "a place before the text: \(position)")
        self.position = position
    }

    /// What begins next, judged by one byte; `nil` where no value can begin. Steps over white space alone.
    public mutating func peek(in bytes: Span<UInt8>) -> JSONKind? {
        position = Grammar.afterSpace(bytes, position)
        return JSONKind(firstByte: Grammar.byte(bytes, position))
    }

    /// Steps into an object; its members follow by `nextKey`.
    public mutating func enterObject(in bytes: Span<UInt8>) throws(JSONError) {
        position = Grammar.afterSpace(bytes, position)
        guard Grammar.byte(bytes, position) == ASCII.openBrace else {
            throw JSONError(offset: position, expected: .object)
        }
        position += 1
        isAtFirst = true
    }

    /// Steps into an array; its elements follow by `advanceToElement`.
    public mutating func enterArray(in bytes: Span<UInt8>) throws(JSONError) {
        position = Grammar.afterSpace(bytes, position)
        guard Grammar.byte(bytes, position) == ASCII.openBracket else {
            throw JSONError(offset: position, expected: .array)
        }
        position += 1
        isAtFirst = true
    }

    /// The next key of the object, with the cursor before its value, which must be passed before the next call. `nil` at the end
    /// of the object, with the cursor behind it.
    public mutating func nextKey(in bytes: Span<UInt8>) throws(JSONError) -> JSONSlice? {
        guard try advance(in: bytes, until: ASCII.closeBrace) else { return nil }
        let (key, end) = try Self.key(bytes, from: position, orEnd: isAtFirst)
        isAtFirst = false
        position = end
        return key
    }

    /// Whether the array has another element; the cursor then stands before it, else behind the array.
    public mutating func advanceToElement(in bytes: Span<UInt8>) throws(JSONError) -> Bool {
        guard try advance(in: bytes, until: ASCII.closeBracket) else { return false }
        guard !isAtFirst || JSONKind(firstByte: Grammar.byte(bytes, position)) != nil else {
            throw JSONError(offset: position, expected: .valueOrArrayEnd)
        }
        isAtFirst = false
        return true
    }

    /// Steps over one whole value.
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

    /// Checks that nothing but white space is left.
    public mutating func finish(in bytes: Span<UInt8>) throws(JSONError) {
        position = Grammar.afterSpace(bytes, position)
        guard position == bytes.count else { throw JSONError(offset: position, expected: .end) }
    }

    /// Steps over the comma, where one is due, to the next item of a container: false, and behind the container, at its end.
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
    /// A key with its colon, and where its value begins. Only in an object just opened could the end stand there as well.
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

    /// A value that holds no other.
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

    /// The object or array that begins at `start`, with all that is nested in it: where it ends.
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
            // A value has ended, or its container is about to.
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

    /// Where the next item follows at once only the comma is missing; else the end may be, too.
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
