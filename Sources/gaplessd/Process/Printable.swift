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
