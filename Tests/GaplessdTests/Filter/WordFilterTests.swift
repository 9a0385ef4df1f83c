import Harness
import JSONBytes
import Testing

@testable import gaplessd

/// Filters `{"a": TEXT}`, where TEXT is JSON. Returns the masked TEXT, or `nil` without a match.
private func masked(_ text: String, by words: [String]) -> String? {
    let bytes = Array("{\"a\": \(text)}".utf8)
    switch WordFilter(words, action: .mask).judge(bytes.indices, of: bytes) {
    case .masked(let payload): return String(decoding: payload.dropFirst(6).dropLast(), as: UTF8.self)
    case .clean: return nil
    case .stopped: return "stopped"
    }
}

@Suite("The word filter")
struct WordFilterTests {
    @Test(arguments: [
        (#""a badword here""#, #""a ******* here""#), (#""BadWord""#, #""*******""#), (#""(badword)!""#, #""(*******)!""#),
        (#""badword badword""#, #""******* *******""#), (#""bad_word_badword""#, #""bad_word_*******""#),
    ])
    func `finds a whole word in any case between other characters than letters, digits and marks`(text: String, expected: String)
    {
        #expect(masked(text, by: ["badword"]) == expected)
    }

    @Test(arguments: [
        #""badwords""#, #""unbadword""#, #""badword2""#, #""badwordé""#, "\"badword\u{301}\"", #""bad word""#, #""ba\tdword""#,
    ])
    func `ignores a longer word`(text: String) {
        #expect(masked(text, by: ["badword"]) == nil)
    }

    @Test func `accepts a star at either end`() {
        let text = #""darn darned goddarn goddarned""#
        #expect(masked(text, by: ["darn"]) == #""**** darned goddarn goddarned""#)
        #expect(masked(text, by: ["darn*"]) == #""**** ****ed goddarn goddarned""#)
        #expect(masked(text, by: ["*darn"]) == #""**** darned god**** goddarned""#)
        #expect(masked(text, by: ["*darn*"]) == #""**** ****ed god**** god****ed""#)
        #expect(masked(text, by: ["darn*", "*darn"]) == #""**** ****ed god**** goddarned""#)
    }

    @Test(arguments: [
        (#""\u0062adword""#, #""*******""#), (#""\u0042\u0041\u0044word""#, #""*******""#),
        (#""x\nbadword\/y""#, #""x\n*******\/y""#),
        (#""\"badword\"""#, #""\"*******\"""#), (#""\\badword""#, #""\\*******""#),
        (#""\ud83d\ude00badword""#, #""\ud83d\ude00*******""#),
        (#""\ud83dbadword""#, #""\ud83d*******""#),
    ])
    func `decodes escapes, and keeps those outside of words unchanged`(text: String, expected: String) {
        #expect(masked(text, by: ["badword"]) == expected)
    }

    @Test func `folds the cases of other scripts, and masks each character by one star`() {
        #expect(masked(#""ПЛОХО плохо пЛОхо""#, by: ["Плохо"]) == #""***** ***** *****""#)
        #expect(masked(#""ΛΟΓΟΣ λόγος λογος""#, by: ["λογος"]) == #""***** λόγος *****""#)
        #expect(masked(#""\u041f\u043bохо""#, by: ["плохо"]) == #""*****""#)
        #expect(masked(#""straße STRASSE STRAẞE""#, by: ["straße"]) == #""****** STRASSE ******""#)
        #expect(masked("\"\u{212A}ing\"", by: ["king"]) == #""****""#, "the sign of Kelvin is a k")
        #expect(masked(#""a💩b""#, by: ["💩"]) == #""a*b""#)
        #expect(masked(#""\ud83d\udca9""#, by: ["💩"]) == #""*""#)
    }

    @Test func `needs no boundaries in scripts without spaces`() {
        #expect(masked(#""这是坏词吗""#, by: ["坏词"]) == #""这是**吗""#)
        #expect(masked(#""나쁜말은 안돼""#, by: ["나쁜말"]) == #""***은 안돼""#)
        #expect(masked(#""すごいバカだ""#, by: ["バカ"]) == #""すごい**だ""#)
        #expect(masked(#""C++ and c++11""#, by: ["c++"]) == #""*** and ***11""#, "nor where a word ends in a sign")
    }

    @Test func `masks words that overlap, and whole phrases with their spaces`() {
        #expect(masked(#""one two three""#, by: ["one two", "two three"]) == #""*************""#)
        #expect(masked(#""one two""#, by: ["one", "one two", "two"]) == #""*******""#)
        #expect(masked(#""ushers""#, by: ["*he*", "*she*", "*hers*"]) == #""u*****""#)
    }

    @Test func `searches string values at any depth, but not keys or numbers`() {
        let payload = #"{"aps":{"alert":{"title":"bad","body":["ok","so BAD"]},"bad" : 1},"bad":"x","n":-1e3,"z":["bad"]}"#
        let bytes = Array(payload.utf8)
        let expected = #"{"aps":{"alert":{"title":"***","body":["ok","so ***"]},"bad" : 1},"bad":"x","n":-1e3,"z":["***"]}"#
        #expect(WordFilter(["bad"], action: .mask).judge(bytes.indices, of: bytes) == .masked(Array(expected.utf8)))
        #expect(WordFilter(["bad"], action: .drop).judge(bytes.indices, of: bytes) == .stopped)
        #expect(WordFilter(["aps", "alert", "1e3"], action: .drop).judge(bytes.indices, of: bytes) == .clean)
    }

    @Test func `searches only the payload`() {
        let bytes = Array(#"{"token":"bad","data":{"aps":{"alert":"bad"}},"collapse_id":"bad"}"#.utf8)
        let payload = 22..<45
        #expect(WordFilter(["bad"], action: .mask).judge(payload, of: bytes) == .masked(Array(#"{"aps":{"alert":"***"}}"#.utf8)))
    }

    @Test(arguments: ["", "*", "**", " ", "* *"])
    func `ignores an entry without text`(word: String) {
        #expect(FilterWord(word) == nil)
    }

    @Test func `finds the same as a search word by word, in random texts`() throws {
        let seed = UInt64.random(in: .min ... .max)
        var random = SeededGenerator(seed: seed)
        let letters = ["a", "b", "A", "é", "É", "Ж", "ж", "词", " ", "-", "1", "*"]
        for _ in 0..<300 {
            func text(_ lengths: ClosedRange<Int>) -> String {
                (0..<Int.random(in: lengths, using: &random)).map { _ in letters.randomElement(using: &random) ?? "" }.joined()
            }
            let words = (0..<Int.random(in: 1...8, using: &random)).map { _ in text(1...4) }.filter { FilterWord($0) != nil }
            let sentence = text(0...40)
            let expected = Self.slowly(sentence, words)
            let quoted = JSONValue.string(sentence).line
            #expect(
                masked(quoted, by: words) ?? quoted == JSONValue.string(expected).line, "seed \(seed): \(words) in \(sentence)")
        }
    }

    /// The same by looking for each word at each place.
    private static func slowly(_ sentence: String, _ words: [String]) -> String {
        let scalars = Array(sentence.unicodeScalars)
        let text = scalars.map(CaseFolding.form)
        var marks = [Bool](repeating: false, count: text.count)
        for word in words.compactMap(FilterWord.init) {
            let wanted = word.text.unicodeScalars.map(CaseFolding.form)
            for first in text.indices
            where first + wanted.count <= text.count && Array(text[first..<first + wanted.count]) == wanted {
                let end = first + wanted.count
                let isCutAtStart = first > 0 && scalars[first - 1].joinsWords && scalars[first].joinsWords
                let isCutAtEnd = end < text.count && scalars[end - 1].joinsWords && scalars[end].joinsWords
                if word.edges.contains(.start) && isCutAtStart || word.edges.contains(.end) && isCutAtEnd { continue }
                for index in first..<end { marks[index] = true }
            }
        }
        return String(String.UnicodeScalarView(zip(scalars, marks).map { $1 ? "*" : $0 }))
    }
}

@Suite("Many words at once")
struct WordAutomatonTests {
    private func found(_ words: [String], in text: String) -> [String] {
        let sorted = words.sorted { Array($0.utf8).lexicographicallyPrecedes(Array($1.utf8)) }
        let automaton = WordAutomaton(sorted: sorted.map { Array($0.utf8) })
        var state = WordAutomaton.start
        var found: [String] = []
        for byte in text.utf8 {
            state = automaton.step(state, byte)
            #expect(automaton.endsWord(state) == !automaton.words(endingAt: state).isEmpty)
            found += automaton.words(endingAt: state).map { sorted[$0] }
        }
        return found
    }

    @Test func `are found at their end, the longest first`() {
        #expect(found(["he", "she", "his", "hers"], in: "ushers") == ["she", "he", "hers"])
        #expect(found(["a", "aa", "aaa"], in: "aaa") == ["a", "aa", "a", "aaa", "aa", "a"])
        #expect(found(["abcd", "bc"], in: "abcabcd") == ["bc", "bc", "abcd"])
        #expect(found(["x"], in: "") == [])
        #expect(found([], in: "anything") == [])
    }

    @Test func `are found among ten thousand`() {
        let words = (0..<10_000).map { "word\($0)z" }
        #expect(found(words, in: "word123word4567zword42zz") == ["word4567z", "word42z"])
    }
}

@Suite("Case folding")
struct CaseFoldingTests {
    @Test func `has a page for every scalar with a case`() {
        let pages = Set(CaseFolding.casedPages)
        for value in UInt32(0)...0x1FFFF where !pages.contains(value >> 8) {
            guard let scalar = Unicode.Scalar(value) else { continue }
            #expect(CaseFolding.form(of: scalar) == scalar)
        }
    }

    @Test func `maps all cases of a letter to one form in one step`() {
        for (left, right) in [("A", "a"), ("Ä", "ä"), ("Σ", "ς"), ("ſ", "s"), ("Ⅷ", "ⅷ"), ("Ꙁ", "ꙁ"), ("Ａ", "ａ"), ("𐐀", "𐐨")] {
            let (left, right) = (Unicode.Scalar(left)!.value, Unicode.Scalar(right)!.value)
            #expect(CaseFolding.simple[left] == CaseFolding.simple[right])
        }
        for scalar in ["i", "ı", "İ", "ß", "1", "词"].compactMap(Unicode.Scalar.init) {
            #expect(CaseFolding.simple[scalar.value] == scalar.value)
        }
        for value in UInt32(0)...0x1FFFF {
            let once = CaseFolding.simple[value]
            if CaseFolding.simple[once] != once { Issue.record("\(value)") }
        }
    }
}
