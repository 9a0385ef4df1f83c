import Glibc

/// Finds wording that the style of the project excludes. This file is the only one that may contain it.
enum Mannerism {
    /// Phrases of whole words. A comma, a full stop, a colon and a semicolon are words of their own.
    private static let phrases: [String] =
        [
            "would be right", "anew", "be it", "be they", "nobody", "so many", "is told", "are told", "was told", "were told",
            "as it came", "as they came", "all the same", "in vain", "of old", "of before", "a word of", "whoever", "bury",
            "buried",
            "buries", "goodbye", "the books", "books balance", "the way of a", "no word from", "word from redis", "born",
        ] + ["it", "they", "there", "then", "that", "this", "its", "not"].map { ", for \($0)" }
        + ["what", "who", "whoever", "whom", "those that", "those who", "he who"].map { ". \($0)" }

    private static let needles = phrases.map { (phrase: $0, text: " \($0) ") }

    /// Returns the excluded phrases of a passage. It is taken to begin with a sentence.
    static func phrases(in text: String) -> [String] {
        let words = words(of: text)
        guard words.count(where: { $0 == 32 }) > 4 else { return [] }
        return needles.filter { needle in words.withUnsafeBufferPointer { strstr($0.baseAddress!, needle.text) != nil }
        }.map(\.phrase)
    }

    /// Lower-case words and punctuation with one space between them and at both ends, behind a full stop, as a C string.
    private static func words(of text: String) -> [CChar] {
        var words = Array(" . ".utf8)
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): words.append(byte | 0x20)
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "'"),
                UInt8(ascii: "_"), UInt8(ascii: "-"), UInt8(ascii: "~"), 0x80...:
                words.append(byte)
            case UInt8(ascii: ","), UInt8(ascii: "."), UInt8(ascii: ":"), UInt8(ascii: ";"), UInt8(ascii: "("):
                if words.last != 32 { words.append(32) }
                words.append(byte)
                words.append(32)
            default: if words.last != 32 { words.append(32) }
            }
        }
        if words.last != 32 { words.append(32) }
        return words.filter { $0 != 0 }.map { CChar(bitPattern: $0) } + [0]
    }
}
