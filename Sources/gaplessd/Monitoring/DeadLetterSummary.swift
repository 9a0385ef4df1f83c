import RedisQueue

/// The newest dead letters of one list, and the reasons of many.
struct DeadLetterSummary: Sendable {
    private static let lettersInPage = 1000
    /// Bytes of a letter whose reason counts.
    private static let beginning = 512

    /// Reasons of the newest dead letters with their numbers, most frequent first.
    var reasons: [(reason: String, count: Int)] = []
    /// The latest first.
    var latest: [DeadLetterBrief] = []

    /// Reads a summary with one call to Redis at a time.
    struct Reader: Sendable {
        private let letters: DeadLetterList
        private let (total, shown): (Int, Int)
        private var next: Int
        private var counts: [String: Int] = [:]
        private(set) var summary = DeadLetterSummary()

        /// - Parameters:
        ///   - total: the number of dead letters.
        ///   - counted: the number of newest letters whose reasons are counted.
        ///   - shown: the number of letters in `latest`.
        ///   - known: a summary to continue, and the number of letters that were added to those that it has counted.
        init(
            _ total: Int, counted: Int, shown: Int, _ keys: Keys, continuing known: (summary: DeadLetterSummary, new: Int)? = nil
        ) {
            letters = DeadLetterList(keys)
            (self.total, self.shown) = (total, shown)
            next = max(0, total - counted)
            guard let known, known.new < total - next else { return }
            next = total - known.new
            for (reason, count) in known.summary.reasons { counts[reason] = count }
        }

        /// Makes one call. Returns whether another one is needed.
        mutating func read(_ client: inout RedisClient) throws(RedisError) -> Bool {
            guard next < total else {
                summary.reasons = counts.map { (reason: $0.key, count: $0.value) }.sorted {
                    ($1.count, $0.reason) < ($0.count, $1.reason)
                }
                if shown == 0 || total <= 0 { return false }
                summary.latest = try letters.page(
                    from: max(0, total - shown), beginnings: DeadLetterBrief.bytes, most: shown, &client
                ).map(DeadLetterBrief.init).reversed()
                return false
            }
            let page = try letters.page(
                from: next, beginnings: DeadLetterSummary.beginning, most: DeadLetterSummary.lettersInPage, &client)
            for record in page { counts[DeadLetterBrief(record: record).reason ?? "(unreadable)", default: 0] += 1 }
            next = page.isEmpty ? total : next + page.count
            return true
        }
    }
}
