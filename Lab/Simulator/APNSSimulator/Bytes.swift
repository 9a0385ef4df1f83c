import Glibc
import JSONBytes

/// Comparisons for every request. They use memcmp(3), which is faster than two iterators.
extension Span where Element == UInt8 {
    func equals(_ text: StaticString) -> Bool {
        unsafe count == text.utf8CodeUnitCount && begins(with: UnsafeRawBufferPointer(start: text.utf8Start, count: count))
    }

    func equals(_ other: [UInt8]) -> Bool { count == other.count && starts(with: other) }

    func starts(with prefix: [UInt8]) -> Bool {
        unsafe count >= prefix.count && prefix.withUnsafeBytes { unsafe begins(with: $0) }
    }

    /// - Parameter prefix: at most as long as this span.
    private func begins(with prefix: UnsafeRawBufferPointer) -> Bool {
        unsafe withUnsafeBytes { own in
            guard let left = own.baseAddress, let right = prefix.baseAddress else { return unsafe prefix.isEmpty }
            return unsafe memcmp(left, right, prefix.count) == 0
        }
    }

    func allSatisfy(_ test: (UInt8) -> Bool) -> Bool {
        for index in indices where !test(self[index]) { return false }
        return true
    }

    /// The value of 1 to 18 decimal digits, which fit 63 bits.
    var decimal: Int64? {
        guard (1...18).contains(count) else { return nil }
        var value: Int64 = 0
        for index in indices {
            guard self[index].isDecimalDigit else { return nil }
            value = value * 10 + Int64(self[index] - 48)
        }
        return value
    }
}

extension UInt8 {
    var isDecimalDigit: Bool { self &- 48 < 10 }
    var isHexDigit: Bool { isDecimalDigit || (self | 0x20) &- 97 < 6 }
    var isLetter: Bool { (self | 0x20) &- 97 < 26 }
}

extension String {
    /// A JSON string with quotes.
    var quotedJSON: String {
        var bytes: [UInt8] = []
        bytes.appendJSONString(self)
        return String(decoding: bytes, as: UTF8.self)
    }
}
