/// A word as the settings name it: `word` is a whole word, `word*` begins one, `*word` ends one, `*word*` stands anywhere.
struct FilterWord {
    let text: String
    let edges: WordEdges

    /// `nil` where nothing is left to find.
    init?(_ named: String) {
        var scalars = Substring(named).unicodeScalars
        let isOpen = (start: scalars.first == "*", end: scalars.count > 1 && scalars.last == "*")
        if isOpen.start { scalars.removeFirst() }
        if isOpen.end { scalars.removeLast() }
        guard let first = scalars.first, let last = scalars.last, scalars.contains(where: { !$0.properties.isWhitespace }) else {
            return nil
        }
        text = String(scalars)
        // Where the word itself ends in a sign, or in a script without spaces, there is no edge to look for.
        edges = WordEdges(atStart: !isOpen.start && first.joinsWords, atEnd: !isOpen.end && last.joinsWords)
    }
}
