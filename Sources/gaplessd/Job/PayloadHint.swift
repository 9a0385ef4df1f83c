import Glibc
internal import JSONBytes

/// The members of a payload's `aps` that determine the push type.
struct PayloadHint: Equatable {
    private var isContentAvailable = false
    private var hasAlert = false
    private var hasBadge = false
    private var hasSound = false

    /// Whether the object `data` has `content-available` and nothing to show or to play.
    ///
    /// Few payloads contain the key, and only those are parsed; the others cost one search of the C library.
    static func isBackground(_ data: JSONSlice, in bytes: [UInt8]) -> Bool {
        (data.hasEscapes || containsAvailable(data.range, of: bytes))
            && PayloadHint(walking: data, in: bytes.span).isBackground
    }

    /// Returns false if the key does not occur without escapes.
    private static func containsAvailable(_ range: Range<Int>, of bytes: [UInt8]) -> Bool {
        let end: StaticString = "-available"
        return unsafe bytes.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return false }
            var at = unsafe start + range.lowerBound
            let last = unsafe start + range.upperBound
            while let hyphen = unsafe memchr(at, CInt(UInt8(ascii: "-")), last - at).map(UnsafeRawPointer.init) {
                if unsafe last - hyphen >= end.utf8CodeUnitCount, unsafe memcmp(hyphen, end.utf8Start, end.utf8CodeUnitCount) == 0
                {
                    return true
                }
                unsafe at = unsafe hyphen + 1
            }
            return false
        }
    }

    /// Parses an object that is known to be JSON.
    init(walking data: JSONSlice, in bytes: Span<UInt8>) {
        guard data.kind == .object else { return }
        var cursor = JSONCursor(at: data.range.lowerBound)
        do {
            try cursor.enterObject(in: bytes)
            while let key = try cursor.nextKey(in: bytes) {
                guard key.equals("aps", in: bytes) else {
                    _ = try cursor.value(in: bytes)
                    continue
                }
                self = PayloadHint()
                if cursor.peek(in: bytes) == .object {
                    try readAPS(&cursor, in: bytes)
                } else {
                    _ = try cursor.value(in: bytes)
                }
            }
        } catch {
            preconditionFailure("a payload is no longer JSON: \(error)")
        }
    }

    private init() {}

    var isBackground: Bool { isContentAvailable && !hasAlert && !hasBadge && !hasSound }

    private mutating func readAPS(_ cursor: inout JSONCursor, in bytes: Span<UInt8>) throws(JSONError) {
        try cursor.enterObject(in: bytes)
        while let (key, value) = try cursor.nextMember(in: bytes) {
            if key.equals("alert", in: bytes) {
                hasAlert = value.kind != .null
            } else if key.equals("badge", in: bytes) {
                hasBadge = value.kind != .null
            } else if key.equals("sound", in: bytes) {
                hasSound = value.kind != .null
            } else if key.equals("content-available", in: bytes) {
                // 1 in Apple's documentation; some producers write `true`.
                let isTrue = value.kind == .bool && bytes[value.range.lowerBound] == UInt8(ascii: "t")
                isContentAvailable = isTrue || value.integer(in: bytes) == .exact(1)
            }
        }
    }
}
