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

    /// Returns local time with its zone as `2026/11/20 22:50:01 +01:00`, for views: the log has no zone.
    static func zoned(_ seconds: Int64) -> String { withZone(seconds, "%Y/%m/%d %H:%M:%S %z") }

    /// Returns local time as `2026-11-20T22:50:01.000+01:00` (RFC 3339).
    static func rfc3339(of seconds: Int64) -> String { withZone(seconds, "%Y-%m-%dT%H:%M:%S.000%z") }

    /// - Parameter format: ends with the zone, which gets a colon.
    private static func withZone(_ seconds: Int64, _ format: String) -> String {
        formatted(seconds, format).map { "\($0.dropLast(2)):\($0.suffix(2))" } ?? "\(seconds)"
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

// Figures in the commands. The page has the same forms.
extension BinaryInteger {
    /// The digits in groups of three: `12,340`.
    var grouped: String {
        let digits = String(magnitude)
        var text = self < 0 ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text += "," }
            text.append(digit)
        }
        return text
    }
}

extension Double {
    /// A rate without its unit, without decimals from 10 on: `5,012`, `0.4`.
    var rate: String {
        self >= 10 || self == 0 ? (Int64(exactly: rounded()) ?? .max).grouped : "\((self * 10).rounded() / 10)"
    }

    /// A duration in seconds: `35 ms`, `1.2 s`, and from a minute on as `span`.
    var duration: String {
        if self >= 60 { return span }
        if self >= 10 || self == 0 { return "\(Int(rounded())) s" }
        if self >= 1 { return "\((self * 10).rounded() / 10) s" }
        return self >= 0.01 ? "\(Int((self * 1000).rounded())) ms" : "\((self * 10_000).rounded() / 10) ms"
    }

    /// A duration in seconds: `42 s`, `7 min`, `3 h 20 min`, `12 d 4 h`.
    var span: String {
        let seconds = Int64(exactly: max(0, self).rounded(.down)) ?? .max
        if seconds < 60 { return "\(seconds) s" }
        if seconds < 3600 { return "\(seconds / 60) min" }
        if seconds < 86_400 { return "\(seconds / 3600) h \(seconds / 60 % 60) min" }
        return "\(seconds / 86_400) d \(seconds / 3600 % 24) h"
    }
}

extension BinaryInteger {
    /// Returns `1 byte` or `2,000 bytes`, for a noun whose plural ends in s.
    func counted(_ noun: String) -> String { "\(grouped) \(noun)\(self == 1 ? "" : "s")" }

    /// Returns `1 job` or `2000 jobs`, for lines of the log: programs that read them expect plain digits.
    func logged(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
