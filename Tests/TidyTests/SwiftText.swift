/// One Swift file, split into code and English.
struct SwiftText {
    /// A comment, a string literal or a test name.
    struct Passage {
        var line: Int
        var text: String
    }

    /// The file with comments, string literals and names in backticks replaced by spaces. Line breaks stay.
    private(set) var code: [UInt8]

    /// Comments (consecutive `//` lines are one passage), string literals without their interpolations, and names in backticks.
    private(set) var passages: [Passage] = []

    private let bytes: [UInt8]
    private var position = 0
    private var line = 1

    init(_ text: String) {
        bytes = Array(text.utf8)
        code = bytes
        readCode(untilParenthesis: false)
    }

    private func byte(_ offset: Int = 0) -> UInt8 { position + offset < bytes.count ? bytes[position + offset] : 0 }

    private mutating func advance() {
        guard position < bytes.count else { return }
        if byte() == UInt8(ascii: "\n") { line += 1 }
        position += 1
    }

    /// Replaces the current byte by a space in `code` and moves on.
    private mutating func blank() {
        guard position < bytes.count else { return }
        if byte() != UInt8(ascii: "\n") { code[position] = UInt8(ascii: " ") }
        advance()
    }

    private mutating func readCode(untilParenthesis: Bool) {
        var depth = 0
        while position < bytes.count {
            switch byte() {
            case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "/"): readLineComment()
            case UInt8(ascii: "/") where byte(1) == UInt8(ascii: "*"): readBlockComment()
            case UInt8(ascii: "/") where isRegexStart: readRegex()
            case UInt8(ascii: "\""),
                UInt8(ascii: "#") where isRawString:
                readString()
            case UInt8(ascii: "`"): readBackticks()
            case UInt8(ascii: "("):
                depth += 1
                advance()
            case UInt8(ascii: ")"):
                if untilParenthesis, depth == 0 { return }
                depth -= 1
                advance()
            default: advance()
            }
        }
    }

    private mutating func readLineComment() {
        let start = position
        let first = line
        while position < bytes.count, byte() != UInt8(ascii: "\n") { blank() }
        let text = String(decoding: bytes[start..<position].drop { $0 == UInt8(ascii: "/") }, as: UTF8.self)
        if let last = passages.indices.last, passages[last].line + lineBreaks(last) + 1 == first, isAloneOnItsLine(start) {
            passages[last].text += "\n" + text
        } else {
            passages.append(Passage(line: first, text: text))
        }
    }

    private func lineBreaks(_ index: Int) -> Int { passages[index].text.utf8.count { $0 == UInt8(ascii: "\n") } }

    private func isAloneOnItsLine(_ start: Int) -> Bool {
        bytes[..<start].reversed().prefix { $0 != UInt8(ascii: "\n") }.allSatisfy { $0 == UInt8(ascii: " ") }
    }

    private mutating func readBlockComment() {
        let start = position
        let first = line
        var depth = 0
        repeat {
            let pair = (byte(), byte(1))
            if pair == (UInt8(ascii: "/"), UInt8(ascii: "*")) {
                depth += 1
                blank()
            } else if pair == (UInt8(ascii: "*"), UInt8(ascii: "/")) {
                depth -= 1
                blank()
            }
            blank()
        } while depth > 0 && position < bytes.count
        passages.append(Passage(line: first, text: String(decoding: bytes[start..<position], as: UTF8.self)))
    }

    /// A slash that follows an opening bracket, a comma, a colon or an equals sign and precedes no space begins a regex.
    private var isRegexStart: Bool {
        guard byte(1) != UInt8(ascii: " ") else { return false }
        let before = bytes[..<position].last { $0 != UInt8(ascii: " ") } ?? 0
        return "(,:=[".utf8.contains(before)
    }

    private mutating func readRegex() {
        blank()
        while position < bytes.count, byte() != UInt8(ascii: "/"), byte() != UInt8(ascii: "\n") {
            if byte() == UInt8(ascii: "\\") { blank() }
            blank()
        }
        blank()
    }

    private var isRawString: Bool {
        let after = bytes[position...].first { $0 != UInt8(ascii: "#") }
        return after == UInt8(ascii: "\"")
    }

    private mutating func readString() {
        let first = line
        var hashes = 0
        while byte() == UInt8(ascii: "#") {
            hashes += 1
            blank()
        }
        let quotes = byte(1) == UInt8(ascii: "\"") && byte(2) == UInt8(ascii: "\"") ? 3 : 1
        for _ in 0..<quotes { blank() }
        var text: [UInt8] = []
        while position < bytes.count, !isEnd(quotes: quotes, hashes: hashes) {
            guard byte() == UInt8(ascii: "\\"), (0..<hashes).allSatisfy({ byte(1 + $0) == UInt8(ascii: "#") }) else {
                text.append(byte())
                blank()
                continue
            }
            for _ in 0...hashes { blank() }
            guard byte() == UInt8(ascii: "(") else {
                // A line break in the source of a long literal is none in its text.
                text.append(UInt8(ascii: byte() == UInt8(ascii: "\n") ? " " : "~"))
                blank()
                continue
            }
            text.append(UInt8(ascii: "~"))
            advance()
            readCode(untilParenthesis: true)
            advance()
        }
        for _ in 0..<(quotes + hashes) { blank() }
        passages.append(Passage(line: first, text: String(decoding: text, as: UTF8.self)))
    }

    private func isEnd(quotes: Int, hashes: Int) -> Bool {
        (0..<quotes).allSatisfy { byte($0) == UInt8(ascii: "\"") }
            && (0..<hashes).allSatisfy { byte(quotes + $0) == UInt8(ascii: "#") }
    }

    private mutating func readBackticks() {
        let first = line
        let start = position
        blank()
        while position < bytes.count, byte() != UInt8(ascii: "`") { blank() }
        blank()
        passages.append(Passage(line: first, text: String(decoding: bytes[start..<position], as: UTF8.self)))
    }
}
