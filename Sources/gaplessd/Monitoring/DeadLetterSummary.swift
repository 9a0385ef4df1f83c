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

    init() {}

    /// - Parameters:
    ///   - total: the number of dead letters.
    ///   - counted: the number of newest letters whose reasons are counted.
    ///   - shown: the number of letters in `latest`.
    init(
        _ total: Int, counted: Int, shown: Int, _ keys: Keys, _ client: inout RedisClient
    ) throws(RedisError) {
        let letters = DeadLetterList(keys)
        var counts: [String: Int] = [:]
        var index = max(0, total - counted)
        while index < total {
            let page = try letters.page(from: index, beginnings: Self.beginning, most: Self.lettersInPage, &client)
            if page.isEmpty { break }
            for record in page { counts[DeadLetterBrief(record: record).reason ?? "(unreadable)", default: 0] += 1 }
            index += page.count
        }
        reasons = counts.map { (reason: $0.key, count: $0.value) }.sorted { ($1.count, $0.reason) < ($0.count, $1.reason) }
        if shown == 0 || total <= 0 { return }
        latest = try letters.page(
            from: max(0, total - shown), beginnings: DeadLetterBrief.bytes, most: shown, &client
        ).map(DeadLetterBrief.init).reversed()
    }
}
