/// The known name that is most like a mistyped one.
struct NearestName: Equatable {
    let name: String
    /// Whether a typing error or a missing word explains the difference.
    let isLikely: Bool

    /// Prefers names of which one is a prefix of the other; otherwise takes the fewest edits. Ignores the case of letters.
    init?(to text: String, among candidates: [String]) {
        let own = String(text.lowercased().prefix(100))
        func difference(_ name: String) -> Int { abs(name.utf8.count - own.utf8.count) }
        let related = candidates.filter { min($0.utf8.count, own.utf8.count) >= 3 && ($0.hasPrefix(own) || own.hasPrefix($0)) }
        if let name = related.min(by: { (difference($0), $0) < (difference($1), $1) }) {
            (self.name, isLikely) = (name, true)
        } else {
            let distances = candidates.map { (edits: Self.edits(from: own, to: $0), name: $0) }
            guard let nearest = distances.min(by: <) else { return nil }
            (name, isLikely) = (nearest.name, nearest.edits <= max(2, own.count / 4))
        }
    }

    /// Counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment distance).
    private static func edits(from text: String, to other: String) -> Int {
        let (left, right) = (Array(text.utf8), Array(other.utf8))
        var rows = [Array(0...right.count)]
        for (row, byte) in left.enumerated() {
            var next = [row + 1]
            for (column, candidate) in right.enumerated() {
                var edits = min(rows[row][column + 1] + 1, next[column] + 1, rows[row][column] + (byte == candidate ? 0 : 1))
                if row > 0, column > 0, byte == right[column - 1], left[row - 1] == candidate {
                    edits = min(edits, rows[row - 1][column - 1] + 1)
                }
                next.append(edits)
            }
            rows.append(next)
        }
        return rows[left.count][right.count]
    }
}
