/// One word a line; a line that begins with `#` is a comment. White space around a word, and a byte order mark, are not part of it.
enum FilterWordsFile {
    static func words(in text: String, _ tellFault: (_ line: Int, _ text: String) -> Void = { _, _ in }) -> [String] {
        var words: [String] = []
        let lines = text.unicodeScalars.split(omittingEmptySubsequences: false) { $0 == "\n" }
        for (index, line) in lines.enumerated() {
            let word = String(line.trimmed)
            if word.isEmpty || word.hasPrefix("#") { continue }
            if FilterWord(word) == nil { tellFault(index + 1, word) } else { words.append(word) }
        }
        return words
    }
}

extension Substring.UnicodeScalarView {
    fileprivate var trimmed: Substring.UnicodeScalarView {
        func isOutside(_ scalar: Unicode.Scalar) -> Bool { scalar.properties.isWhitespace || scalar == "\u{FEFF}" }
        guard let last = lastIndex(where: { !isOutside($0) }) else { return self[startIndex..<startIndex] }
        return self[...last].drop(while: isOutside)
    }
}
