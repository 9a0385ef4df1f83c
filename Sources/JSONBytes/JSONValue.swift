/// A JSON text as a tree: for settings and other small texts. Jobs are read with `JSONCursor`.
public enum JSONValue: Sendable, Equatable {
    /// In the order of the text, duplicate keys included.
    case object([JSONMember])
    case array([JSONValue])
    /// Escapes decoded; a lone surrogate is U+FFFD.
    case string(String)
    /// The digits as written: `1.50`, `-0`, `1e3`.
    case number(String)
    case bool(Bool)
    case null

    /// The most nested values: a tree is freed recursively, which must not exhaust the stack.
    public static let mostNesting = 256

    /// Reads a whole text.
    public static func parse(_ bytes: [UInt8]) throws(JSONError) -> JSONValue {
        let span = bytes.span
        var cursor = JSONCursor()
        let value = try read(&cursor, in: span, depth: 0)
        try cursor.finish(in: span)
        return value
    }

    private static func read(_ cursor: inout JSONCursor, in bytes: Span<UInt8>, depth: Int) throws(JSONError) -> JSONValue {
        let kind = cursor.peek(in: bytes)
        guard depth < mostNesting || (kind != .object && kind != .array) else {
            throw JSONError(offset: cursor.position, expected: .lessNesting)
        }
        switch kind {
        case .object:
            var members: [JSONMember] = []
            try cursor.enterObject(in: bytes)
            while let key = try cursor.nextKey(in: bytes) {
                let value = try read(&cursor, in: bytes, depth: depth + 1)
                members.append(JSONMember(key: key.text(in: bytes), value: value, offset: key.range.lowerBound))
            }
            return .object(members)
        case .array:
            var elements: [JSONValue] = []
            try cursor.enterArray(in: bytes)
            while try cursor.advanceToElement(in: bytes) {
                elements.append(try read(&cursor, in: bytes, depth: depth + 1))
            }
            return .array(elements)
        default:
            let value = try cursor.value(in: bytes)
            switch value.kind {
            case .string: return .string(value.text(in: bytes))
            case .number: return .number(value.text(in: bytes))
            case .bool: return .bool(bytes[value.range.lowerBound] == UInt8(ascii: "t"))
            default: return .null
            }
        }
    }

    /// The value of an object's member; the last one if the key is repeated. `nil` for other kinds and unknown keys.
    public subscript(key: String) -> JSONValue? {
        guard case .object(let members) = self else { return nil }
        return members.last { $0.key == key }?.value
    }

    public var stringValue: String? {
        if case .string(let text) = self { text } else { nil }
    }

    /// The integer of a number that consists of digits; `nil` for `1.0` and `1e3`.
    public var integerValue: Int64? {
        if case .number(let text) = self { Int64(text) } else { nil }
    }

    public var doubleValue: Double? {
        if case .number(let text) = self { Double(text) } else { nil }
    }

    public var boolValue: Bool? {
        if case .bool(let bool) = self { bool } else { nil }
    }
}

/// One member of an object.
public struct JSONMember: Sendable, Equatable {
    public var key: String
    public var value: JSONValue
    /// The offset of the key's opening quote from the start of the text.
    public var offset: Int

    public init(key: String, value: JSONValue, offset: Int) {
        self.key = key
        self.value = value
        self.offset = offset
    }
}

/// The place at which a text stops being JSON, and the element that the grammar expects there.
public struct JSONError: Error, Sendable, Equatable, CustomStringConvertible {
    /// An element of the grammar. The raw value is the wording.
    public enum Expectation: String, Sendable, Equatable {
        case value = "a value"
        case object = "'{'"
        case array = "'['"
        case key = "a key"
        case keyOrEnd = "a key or '}'"
        case colon = "':'"
        case comma = "','"
        case commaOrObjectEnd = "',' or '}'"
        case commaOrArrayEnd = "',' or ']'"
        case valueOrArrayEnd = "a value or ']'"
        case quote = "'\"'"
        case noControlCharacter = "an escape instead of a control character"
        case escape = "one of \"\\/bfnrtu"
        case hexDigit = "a hex digit"
        case digit = "a digit"
        case validUTF8 = "valid UTF-8"
        case end = "nothing more"
        case lessNesting = "fewer nested values"
    }

    /// Bytes from the start of the text; its length if it ends too early.
    public var offset: Int
    public var expected: Expectation

    public init(offset: Int, expected: Expectation) {
        self.offset = offset
        self.expected = expected
    }

    /// For example: expected ',' at byte 17.
    public var description: String { "expected \(expected.rawValue) at byte \(offset)" }
}
