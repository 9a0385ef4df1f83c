import Glibc
import JSONBytes

extension String {
    /// The text on one line, without control sequences for a terminal: a control character becomes `\x0a`.
    var printable: String {
        if unicodeScalars.allSatisfy({ !$0.misleadsTerminals }) { return self }
        var text = ""
        for scalar in unicodeScalars {
            if scalar.misleadsTerminals {
                let digits = String(scalar.value, radix: 16)
                text += "\\x" + (digits.count < 2 ? "0" : "") + digits
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// The text, or two quotes where it is empty.
    var orQuotes: String { isEmpty ? "\"\"" : self }
}

/// Formats times in the time zone of the process.
enum LocalTime {
    /// Returns local time as `2026/11/20 22:50:01`.
    ///
    /// - Parameter seconds: Unix seconds. A value after about the year 9999 is returned as a number.
    static func text(of seconds: Int64) -> String { formatted(seconds, "%Y/%m/%d %H:%M:%S") ?? "\(seconds)" }

    /// Returns local time as `2026-11-20T22:50:01+01:00` (RFC 3339).
    static func rfc3339(of seconds: Int64) -> String {
        guard let text = formatted(seconds, "%Y-%m-%dT%H:%M:%S%z") else { return "\(seconds)" }
        return "\(text.dropLast(2)):\(text.suffix(2))"
    }

    private static func formatted(_ seconds: Int64, _ format: String) -> String? {
        guard seconds.magnitude < 250_000_000_000 else { return nil }
        var time = time_t(seconds)
        var parts = unsafe tm()
        unsafe localtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 64)
        let length = unsafe strftime(&text, text.count, format, &parts)
        return String(decoding: text.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}

extension BinaryInteger {
    /// Returns `1 byte` or `2 bytes`, for a noun whose plural ends in s.
    func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
