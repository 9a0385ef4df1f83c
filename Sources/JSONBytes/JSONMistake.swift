extension JSONError {
    /// The mistake of a person or a producer that leads to this error; `nil` if `expected` says it all.
    public func mistake(in text: [UInt8]) -> String? {
        let here = text[min(max(offset, 0), text.count)...]
        if offset == 0, let mistake = Self.mistakeAtStart(of: text) { return mistake }
        switch (expected, here.first) {
        case (_, nil):
            if text.isEmpty { return "it is empty" }
            return expected == .quote ? "a quote is missing, or the end of the text" : "the end of the text is missing"
        case (.noControlCharacter, 0x0A), (.noControlCharacter, 0x0D):
            return "a line break within a string, or a missing quote"
        case (.key, ASCII.closeBrace): return "a comma before '}'"
        case (.value, ASCII.closeBracket): return "a comma before ']'"
        case (.value, ASCII.closeBrace): return "a value is missing"
        case (.value, ASCII.comma), (.key, ASCII.comma), (.keyOrEnd, ASCII.comma), (.valueOrArrayEnd, ASCII.comma):
            return "a comma too many"
        case (.escape, _), (.hexDigit, _), (.validUTF8, _), (.lessNesting, _): return nil
        case (_, UInt8(ascii: "#")): return "JSON has no comments"
        case (_, UInt8(ascii: "/")) where [UInt8(ascii: "/"), UInt8(ascii: "*")].contains(here.dropFirst().first):
            return "JSON has no comments"
        case (_, UInt8(ascii: "'")), (_, UInt8(ascii: "`")): return "strings have double quotes"
        case (_, 0xE2) where here.starts(with: [0xE2, 0x80]), (_, 0xC2) where here.starts(with: [0xC2, 0xAB]):
            return "typographic quotes; strings have plain double quotes"
        case (.key, let byte?), (.keyOrEnd, let byte?): return Self.isLetter(byte) ? "a key has double quotes" : nil
        case (.value, let byte?), (.valueOrArrayEnd, let byte?):
            guard Self.isLetter(byte) else { return nil }
            let word = String(decoding: here.prefix(while: Self.isLetter), as: UTF8.self)
            switch word {
            case "True", "False", "None", "TRUE", "FALSE", "NULL", "nil", "undefined", "Nil":
                return "\(word) is not JSON; expected true, false or null"
            case "NaN", "Infinity", "inf", "nan": return "\(word) is not JSON"
            default: return "a string has double quotes"
            }
        case (.commaOrObjectEnd, let byte?), (.commaOrArrayEnd, let byte?), (.colon, let byte?):
            return Self.isLetter(byte) ? "a quote within a string needs a backslash, or one is missing" : nil
        case (.digit, _): return nil
        case (.end, _): return "more than one value"
        default: return nil
        }
    }

    private static func mistakeAtStart(of text: [UInt8]) -> String? {
        if text.starts(with: [0xEF, 0xBB, 0xBF]) { return "a byte order mark at the start" }
        if text.starts(with: [0xFF, 0xFE]) || text.starts(with: [0xFE, 0xFF]) { return "UTF-16; JSON is UTF-8" }
        if text.starts(with: [0x1F, 0x8B]) { return "the text is compressed (gzip)" }
        if text.starts(with: "b'".utf8) || text.starts(with: "b\"".utf8) { return "Python's form of bytes, not JSON" }
        if text.starts(with: "a:".utf8) || text.starts(with: "O:".utf8) { return "PHP's serialize, not JSON" }
        if text.first == ASCII.quote, text.contains(ASCII.openBrace) { return "JSON within a string: it was encoded twice" }
        if text.first == ASCII.openBracket { return "an array; one element of the list is one object" }
        return nil
    }

    private static func isLetter(_ byte: UInt8) -> Bool { 0x61...0x7A ~= byte | 0x20 }
}
