/// Formats figures for the page and for `top`.
enum PageText {
    /// `1 234 567`, without decimals.
    static func count(_ value: Double) -> String { (Int64(exactly: value.rounded()) ?? .max).grouped }

    /// A rate, without decimals from 10 on.
    static func rate(_ value: Double) -> String {
        value >= 10 || value == 0 ? count(value) : "\((value * 10).rounded() / 10)"
    }

    /// `35 ms`, `1.2 s`, and from a minute on as `span`.
    static func seconds(_ value: Double) -> String {
        if value >= 60 { return span(value) }
        if value >= 10 || value == 0 { return "\(Int(value.rounded())) s" }
        if value >= 1 { return "\((value * 10).rounded() / 10) s" }
        return value >= 0.01 ? "\(Int((value * 1000).rounded())) ms" : "\((value * 10_000).rounded() / 10) ms"
    }

    static func milliseconds(_ duration: Duration) -> String { seconds(duration / .seconds(1)) }

    /// `42 s`, `7 min`, `3 h 20 min`, `12 d 4 h`.
    static func span(_ seconds: Double) -> String {
        let seconds = Int64(exactly: max(0, seconds).rounded(.down)) ?? .max
        if seconds < 60 { return "\(seconds) s" }
        if seconds < 3600 { return "\(seconds / 60) min" }
        if seconds < 86_400 { return "\(seconds / 3600) h \(seconds / 60 % 60) min" }
        return "\(seconds / 86_400) d \(seconds / 3600 % 24) h"
    }
}

extension BinaryInteger {
    /// The digits in groups of three, with a narrow space between them.
    var grouped: String {
        let digits = String(magnitude)
        var text = self < 0 ? "-" : ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index) % 3 == 0 { text += "\u{202F}" }
            text.append(digit)
        }
        return text
    }
}

extension String {
    /// The text on one line, unable to begin a tag or to leave an attribute.
    var forHTML: String {
        var text = ""
        for scalar in printable.unicodeScalars {
            switch scalar {
            case "&": text += "&amp;"
            case "<": text += "&lt;"
            case ">": text += "&gt;"
            case "\"": text += "&quot;"
            case "'": text += "&#39;"
            default: text.unicodeScalars.append(scalar)
            }
        }
        return text
    }
}
