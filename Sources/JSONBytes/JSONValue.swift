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
