/// Selects dead letters. Without any condition it selects all.
struct DeadLetterFilter {
    /// The exact reason, with or without the status.
    var reason: String?
    var app: AppSelection?
    /// A token of the job, in any case.
    var token: String?
    /// Unix seconds: only letters from before.
    var before: Int64?

    var isEmpty: Bool { reason == nil && app == nil && token == nil && before == nil }

    func matches(_ letter: DeadLetter) -> Bool {
        if let reason, ![letter.reason, letter.shownReason, letter.statusAndReason].contains(reason) { return false }
        if let before, letter.at >= before { return false }
        if let token {
            let tokens = [letter.token].compactMap(\.self) + (JobFacts(letter.job)?.tokens ?? [])
            if !tokens.contains(where: { $0.lowercased() == token.lowercased() }) { return false }
        }
        return app?.matches(letter.job) ?? true
    }
}

extension DeadLetterFilter {
    /// - Parameter now: Unix seconds.
    init(reason: String?, app: AppSelection?, token: String?, older: Duration?, now: Int64) {
        (self.reason, self.app, self.token) = (reason, app, token)
        before = older.map { now - Int64(min($0 / .seconds(1), 1e12)) }
    }
}

extension DeadLetter {
    fileprivate var shownReason: String { reason.isEmpty ? "no reason" : reason }

    /// `410 Unregistered`, or the reason alone if there is no status.
    var statusAndReason: String { (status.map { "\($0) " } ?? "") + shownReason }
}
