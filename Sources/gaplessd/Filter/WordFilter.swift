import JSONBytes

/// Finds the words of `filter_words` in payloads.
///
/// It searches the decoded string values of a payload and ignores case. It does not search keys and numbers.
struct WordFilter: Sendable {
    enum Action: String, Sendable, Equatable {
        /// The job becomes a dead letter.
        case drop
        /// Each character of a word becomes `*`.
        case mask
    }

    enum Verdict: Equatable {
        case clean
        case stopped
        /// The payload with `*` for each character of the words, never longer than before.
        case masked([UInt8])
    }

    /// A match differs from the word only by case, so both have the same number of scalars.
    private struct Entry {
        var bytes: [UInt8]
        var scalars: Int
        /// One bit for each `WordEdges` that the settings require for the word.
        var edges: UInt8
    }

    let action: Action
    private let automaton: WordAutomaton
    private let entries: [Entry]
    private let folding = CaseFolding.simple
    private let lowercase: [UInt8] = (0...255).map { UInt8(ascii: "A")...UInt8(ascii: "Z") ~= $0 ? $0 | 0x20 : $0 }

    /// - Parameter words: the entries of `filter_words`, each a valid `FilterWord`.
    init(_ words: [String], action: Action) {
        self.action = action
        var known: [[UInt8]: Entry] = [:]
        for word in words.compactMap(FilterWord.init) {
            let scalars = word.text.unicodeScalars.map { CaseFolding.simple[$0.value] }
            let bytes = scalars.flatMap { Array(String(Unicode.Scalar($0) ?? "\u{FFFD}").utf8) }
            known[bytes, default: Entry(bytes: bytes, scalars: scalars.count, edges: 0)].edges |= 1 << word.edges.rawValue
        }
        entries = known.values.sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }
        automaton = WordAutomaton(sorted: entries.map(\.bytes))
    }

    /// - Parameter payload: the range of valid JSON in `bytes`.
    func judge(_ payload: Range<Int>, of bytes: [UInt8]) -> Verdict {
        let span = bytes.span
        var output: [UInt8] = []
        var copied = payload.lowerBound
        var at = payload.lowerBound
        while at < payload.upperBound {
            // Outside a string only a quote begins one.
            guard span[at] == UInt8(ascii: "\"") else {
                at += 1
                continue
            }
            let (end, isSuspect) = scan(span, from: at + 1)
            if isSuspect, !isKey(span, endingAt: end, payload) {
                let marks = DecodedText(span, at + 1..<end)
                for masked in marks.ranges(of: matches(in: marks)) {
                    if action == .drop { return .stopped }
                    output += bytes[copied..<masked.bytes.lowerBound]
                    output += repeatElement(UInt8(ascii: "*"), count: masked.scalars)
                    copied = masked.bytes.upperBound
                }
            }
            at = end + 1
        }
        return output.isEmpty ? .clean : .masked(output + bytes[copied..<payload.upperBound])
    }

    /// Scans one string up to its closing quote for the letters of any word. A clean payload costs only this.
    @inline(__always)
    private func scan(_ span: Span<UInt8>, from start: Int) -> (end: Int, isSuspect: Bool) {
        var at = start
        var state = WordAutomaton.start
        var isSuspect = false
        while true {
            let byte = span[at]
            if byte == UInt8(ascii: "\"") { return (at, isSuspect) }
            if byte < 0x80 && byte != UInt8(ascii: "\\") {
                state = automaton.step(state, lowercase[Int(byte)])
                at += 1
            } else {
                let (scalar, next) = JSONText.scalar(span, at)
                state = step(state, folding[scalar])
                at = next
            }
            if automaton.endsWord(state) { isSuspect = true }
        }
    }

    @inline(__always)
    private func step(_ state: WordAutomaton.State, _ scalar: UInt32) -> WordAutomaton.State {
        if scalar < 0x80 { return automaton.step(state, UInt8(scalar)) }
        let bytes = UTF8.encode(Unicode.Scalar(scalar) ?? "\u{FFFD}") ?? UTF8.encodedReplacementCharacter
        return bytes.reduce(state) { automaton.step($0, $1) }
    }

    private func isKey(_ span: Span<UInt8>, endingAt quote: Int, _ payload: Range<Int>) -> Bool {
        var at = quote + 1
        while at < payload.upperBound, [0x20, 0x09, 0x0A, 0x0D].contains(span[at]) { at += 1 }
        return at < payload.upperBound && span[at] == UInt8(ascii: ":")
    }

    /// Returns which scalars belong to a match with the required boundaries.
    private func matches(in text: DecodedText) -> [Bool] {
        var marks = [Bool](repeating: false, count: text.scalars.count)
        var state = WordAutomaton.start
        for (last, scalar) in text.scalars.enumerated() {
            state = step(state, folding[scalar])
            guard automaton.endsWord(state) else { continue }
            for word in automaton.words(endingAt: state) {
                let entry = entries[word]
                let first = last + 1 - entry.scalars
                let here = WordEdges(atStart: text.isEdge(before: first), atEnd: text.isEdge(before: last + 1))
                guard WordEdges.all.contains(where: { entry.edges & 1 << $0.rawValue != 0 && $0.isSubset(of: here) }) else {
                    continue
                }
                for index in first...last { marks[index] = true }
            }
        }
        return marks
    }
}

/// An entry of `filter_words`: `word` matches a whole word, `word*` a beginning, `*word` an end, `*word*` any part.
struct FilterWord {
    let text: String
    let edges: WordEdges

    /// Returns `nil` for an entry without text.
    init?(_ named: String) {
        var scalars = Substring(named).unicodeScalars
        let isOpen = (start: scalars.first == "*", end: scalars.count > 1 && scalars.last == "*")
        if isOpen.start { scalars.removeFirst() }
        if isOpen.end { scalars.removeLast() }
        guard let first = scalars.first, let last = scalars.last, scalars.contains(where: { !$0.properties.isWhitespace }) else {
            return nil
        }
        text = String(scalars)
        // A word that ends in a sign, or in a script without spaces, needs no boundary.
        edges = WordEdges(atStart: !isOpen.start && first.joinsWords, atEnd: !isOpen.end && last.joinsWords)
    }
}

/// The ends of a match that must be word boundaries.
struct WordEdges: OptionSet {
    let rawValue: UInt8
    static let start = WordEdges(rawValue: 1)
    static let end = WordEdges(rawValue: 2)
    static let all: [WordEdges] = [[], start, end, [start, end]]

    init(rawValue: UInt8) { self.rawValue = rawValue }

    init(atStart: Bool, atEnd: Bool) {
        self = []
        if atStart { insert(.start) }
        if atEnd { insert(.end) }
    }
}

/// The scalars of one JSON string, with the place of each in the bytes.
struct DecodedText {
    private(set) var scalars: [UInt32] = []
    /// The start of each scalar, and the end of the last one.
    private var places: [Int] = []

    init(_ bytes: Span<UInt8>, _ content: Range<Int>) {
        var at = content.lowerBound
        while at < content.upperBound {
            let (scalar, next) = JSONText.scalar(bytes, at)
            scalars.append(scalar)
            places.append(at)
            at = next
        }
        places.append(content.upperBound)
    }

    /// Whether a word boundary lies before this scalar.
    func isEdge(before index: Int) -> Bool {
        guard index > 0, index < scalars.count else { return true }
        let neighbours = scalars[index - 1...index].compactMap(Unicode.Scalar.init)
        return !neighbours.allSatisfy(\.joinsWords)
    }

    /// Returns the ranges of marked scalars.
    func ranges(of marks: [Bool]) -> [(bytes: Range<Int>, scalars: Int)] {
        var ranges: [(bytes: Range<Int>, scalars: Int)] = []
        var at = 0
        while let first = marks[at...].firstIndex(of: true) {
            let end = marks[first...].firstIndex(of: false) ?? marks.count
            ranges.append((places[first]..<places[end], end - first))
            at = end
        }
        return ranges
    }
}

/// Scalars of a JSON string that is known to be valid.
enum JSONText {
    /// Returns the scalar at `at`, escaped or not, and the place of the next one.
    static func scalar(_ bytes: Span<UInt8>, _ at: Int) -> (scalar: UInt32, next: Int) {
        let byte = bytes[at]
        if byte == UInt8(ascii: "\\") { return JSONEscape.scalar(bytes, at: at) }
        if byte < 0x80 { return (UInt32(byte), at + 1) }
        if byte < 0xE0 { return (UInt32(byte & 0x1F) << 6 | tail(bytes, at + 1), at + 2) }
        if byte < 0xF0 { return (UInt32(byte & 0x0F) << 12 | tail(bytes, at + 1) << 6 | tail(bytes, at + 2), at + 3) }
        let high = UInt32(byte & 0x07) << 18 | tail(bytes, at + 1) << 12
        return (high | tail(bytes, at + 2) << 6 | tail(bytes, at + 3), at + 4)
    }

    private static func tail(_ bytes: Span<UInt8>, _ at: Int) -> UInt32 { UInt32(bytes[at] & 0x3F) }
}
