import JSONBytes

/// One of `filter_match`: values that a payload must not have at a path.
///
/// A duplicate key counts as everywhere in a job: the last value applies.
struct PayloadMatch: Sendable, Equatable {
    enum Value: Sendable, Equatable {
        case string([UInt8])
        case integer(Int64)
        case number(Double)
        case bool(Bool)
        case null
    }

    /// The keys from the payload to the value, in UTF-8. Never empty.
    private let path: [[UInt8]]
    private let values: [Value]

    /// - Parameter path: keys with dots between them.
    init(path: String, values: [Value]) {
        self.path = path.split(separator: ".", omittingEmptySubsequences: false).map { Array($0.utf8) }
        self.values = values
    }

    /// Whether the payload has one of the values at the path.
    ///
    /// - Parameters:
    ///   - payload: a JSON object that is known to be valid.
    func matches(_ payload: Range<Int>, of bytes: [UInt8]) -> Bool {
        let span = bytes.span
        var found = JSONSlice(range: payload, kind: .object)
        for key in path {
            guard found.kind == .object, let value = Self.member(key, of: found, in: span) else { return false }
            found = value
        }
        return Self.value(of: found, in: span).map(values.contains) ?? false
    }

    private static func member(_ key: [UInt8], of object: JSONSlice, in bytes: Span<UInt8>) -> JSONSlice? {
        var cursor = JSONCursor(at: object.range.lowerBound)
        var found: JSONSlice?
        do throws(JSONError) {
            try cursor.enterObject(in: bytes)
            while let (name, value) = try cursor.nextMember(in: bytes) {
                if name.hasEscapes || name.content.count == key.count, name.utf8(in: bytes) == key { found = value }
            }
        } catch {
            return nil
        }
        return found
    }

    /// `nil` for an object and an array.
    private static func value(of slice: JSONSlice, in bytes: Span<UInt8>) -> Value? {
        switch slice.kind {
        case .object, .array: nil
        case .string: .string(slice.utf8(in: bytes))
        case .number: number(slice.text(in: bytes))
        case .bool: .bool(bytes[slice.range.lowerBound] == UInt8(ascii: "t"))
        case .null: .null
        }
    }

    /// An integer of 64 bits is compared exactly, also if it is written as `1.0` or `1e0`.
    static func number(_ text: String) -> Value? {
        if let integer = Int64(text) { return .integer(integer) }
        guard let double = Double(text) else { return nil }
        return Int64(exactly: double).map(Value.integer) ?? .number(double)
    }
}
