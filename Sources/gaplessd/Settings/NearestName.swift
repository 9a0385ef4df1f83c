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
    static func edits(from text: String, to other: String) -> Int {
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

/// The known key that is most like an unknown one by its words, or the value of a key that the unknown one names:
/// `apns_production` is `"apns_server": "production"`.
struct NearestKey: Equatable {
    /// In quotes, with the value if the unknown key names one.
    let text: String
    /// Whether a typing error, a missing word or a usual synonym explains the difference.
    let isLikely: Bool

    private struct Candidate {
        let text: String
        let words: [String]
    }

    /// The words of this program for usual words of others; an empty text is no part of a name.
    private static let synonyms = [
        "uri": "url", "dsn": "url", "passphrase": "password", "pwd": "password", "certificate": "cert", "user": "username",
        "retries": "retry_limit", "bundle": "topic", "p8": "auth_key_path", "prod": "production", "dev": "sandbox",
        "development": "sandbox", "environment": "server", "gateway": "server", "endpoint": "server", "workers": "pool_size",
        "connections": "pool_size", "concurrency": "pool_size", "database": "db", "use": "", "is": "", "enable": "",
        "enabled": "",
    ]
    /// Keys of others whose words mean something else here.
    private static let aliases = [
        "apns_host": "apns_server", "apns_url": "apns_server", "apns_address": "apns_server", "apns_port": "apns_server",
        "rate_limit": "max_rate", "metrics_port": "metrics_listen", "metrics_address": "metrics_listen",
        "redis_address": "redis_url", "redis_server": "redis_host", "bundle_id": "apns_topic", "apns_bundle_id": "apns_topic",
        "max_retries": "retry_limit", "metrics": "metrics_listen", "cert": "apns_cert_path", "key": "apns_auth_key_path",
        "p8": "apns_auth_key_path", "p12": "apns_p12_path",
    ]
    /// Values beside those of a choice.
    private static let values = [("apns_server", "production"), ("apns_server", "sandbox"), ("pool_size", "auto")]

    init?(to name: String, among settings: [Setting]) {
        let names = settings.flatMap(\.names)
        let own = String(name.prefix(100))
        if let alias = Self.aliases[own.lowercased()], names.contains(alias) {
            (text, isLikely) = ("\"\(alias)\"", true)
            return
        }
        let typed = Self.words(own)
        let words = typed.flatMap { Self.words(Self.synonyms[$0] ?? $0) }
        let pairs = settings.flatMap { setting -> [(String, String)] in
            if case .choice(let values) = setting.traits.schema { values.map { (setting.name, $0) } } else { [] }
        }
        let values = (pairs + Self.values).filter { names.contains($0.0) }
        let isMeant = words != typed || values.contains { words.contains($0.1) }
        let nearest = NearestName(to: name, among: names)
        if let nearest, nearest.isLikely, !isMeant {
            (text, isLikely) = ("\"\(nearest.name)\"", true)
            return
        }
        let candidates =
            names.map { Candidate(text: "\"\($0)\"", words: Self.words($0)) }
            + values.map { Candidate(text: "\"\($0.0)\": \"\($0.1)\"", words: Self.words($0.0) + Self.words($0.1)) }
        if let best = Self.best(words, candidates) {
            (text, isLikely) = best
        } else if let nearest {
            (text, isLikely) = ("\"\(nearest.name)\"", nearest.isLikely)
        } else {
            return nil
        }
    }

    /// Returns the candidate with the largest share of equal words, each weighted by its rarity, and whether it has all of them.
    private static func best(_ words: [String], _ candidates: [Candidate]) -> (String, Bool)? {
        var counts: [String: Int] = [:]
        for word in candidates.flatMap(\.words) { counts[word, default: 0] += 1 }
        func weight(_ word: String) -> Double { 1 / Double(counts[word] ?? 1).squareRoot() }
        // A known word is no typing error of another.
        func isAlike(_ word: String, _ other: String) -> Bool {
            counts[word] == nil ? Self.isAlike(word, other) : word == other
        }
        let typed = words.map { word in counts.keys.filter { isAlike(word, $0) }.map(weight).max() ?? 1 }.reduce(0, +)
        var best: (text: String, share: Double, isWhole: Bool)?
        for candidate in candidates {
            let shared = words.compactMap { word in candidate.words.filter { isAlike(word, $0) }.map(weight).max() }
            let share = 2 * shared.reduce(0, +) / (typed + candidate.words.map(weight).reduce(0, +))
            guard !shared.isEmpty, share > best?.share ?? 0 else { continue }
            best = (candidate.text, share, shared.count == words.count)
        }
        return best.map { ($0.text, $0.isWhole && $0.share >= leastShare) }
    }

    /// The share of equal words from which a candidate is likely.
    private static let leastShare = 0.5

    /// Whether one word is the start of the other, or has a typing error.
    private static func isAlike(_ word: String, _ other: String) -> Bool {
        if word == other { return true }
        let least = min(word.utf8.count, other.utf8.count)
        if least < 3 { return false }
        return word.hasPrefix(other) || other.hasPrefix(word)
            || least >= 4 && NearestName.edits(from: word, to: other) <= least / 4
    }

    /// The words of a name with underscores, hyphens or capitals.
    private static func words(_ name: String) -> [String] {
        var words = [""]
        var wasLower = false
        for character in name {
            if !character.isLetter && !character.isNumber || wasLower && character.isUppercase { words.append("") }
            if character.isLetter || character.isNumber { words[words.count - 1] += character.lowercased() }
            wasLower = character.isLowercase
        }
        return words.filter { !$0.isEmpty }
    }
}
