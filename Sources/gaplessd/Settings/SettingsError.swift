import JSONBytes

/// What is wrong at one key of the settings, and what would be right: one line for the operator.
struct SettingsError: Error, Sendable, Equatable {
    /// `pool_size`, or `apps.beta.apns_topic`; empty for the file as a whole.
    var key: String
    var problem: String
    /// What would be right; empty where the problem says it.
    var remedy: String

    /// `settings.json: pool_size: is 0; an integer from 1 to 100 would be right`
    func line(file: String) -> String { "\(file.orQuotes.printable): \(line)" }

    /// The same without the file.
    var line: String {
        (key.isEmpty ? "" : "\(key.printable): ") + problem.printable + (remedy.isEmpty ? "" : "; \(remedy.printable)")
    }
}

extension String {
    /// On one line and harmless to a terminal: control characters as `\x0a`.
    var printable: String {
        if unicodeScalars.allSatisfy({ !$0.isUnprintable }) { return self }
        var text = ""
        for scalar in unicodeScalars {
            if scalar.isUnprintable {
                let digits = String(scalar.value, radix: 16)
                text += "\\x" + (digits.count < 2 ? "0" : "") + digits
            } else {
                text.unicodeScalars.append(scalar)
            }
        }
        return text
    }

    /// The candidate that is most like it, the case of letters aside: the one with the most in common where one begins with the
    /// other, else that which is fewest edits away.
    ///
    /// - Returns: also whether a slip of the finger, or a word left out, explains the difference.
    func nearest(among candidates: some Sequence<String>) -> (name: String, isLikely: Bool)? {
        let own = String(lowercased().prefix(100))
        func length(_ name: String) -> Int { abs(name.utf8.count - own.utf8.count) }
        let kin = candidates.filter { min($0.utf8.count, own.utf8.count) >= 3 && ($0.hasPrefix(own) || own.hasPrefix($0)) }
        if let name = kin.min(by: { (length($0), $0) < (length($1), $1) }) { return (name, true) }
        return candidates.map { (name: $0, edits: own.edits(to: $0)) }
            .min { ($0.edits, $0.name) < ($1.edits, $1.name) }
            .map { ($0.name, $0.edits <= max(2, own.count / 4)) }
    }

    /// Insertions, deletions, replacements and swaps of neighbours that turn one into the other (optimal string alignment).
    private func edits(to other: String) -> Int {
        let (left, right) = (Array(utf8), Array(other.utf8))
        var rows = [Array(0...right.count)]
        for (row, byte) in left.enumerated() {
            var next = [row + 1]
            for (column, candidate) in right.enumerated() {
                var edits = Swift.min(
                    rows[row][column + 1] + 1, next[column] + 1, rows[row][column] + (byte == candidate ? 0 : 1))
                if row > 0, column > 0, byte == right[column - 1], left[row - 1] == candidate {
                    edits = Swift.min(edits, rows[row - 1][column - 1] + 1)
                }
                next.append(edits)
            }
            rows.append(next)
        }
        return rows[left.count][right.count]
    }
}
