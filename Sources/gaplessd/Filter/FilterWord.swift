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
