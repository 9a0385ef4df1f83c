/// Selects dead letters. Without any condition it selects all.
struct DeadLetterFilter {
    /// The exact reason, with or without the status.
    var reason: String?
    /// The app that the job names by `app`, or by the `apns_topic` of the app.
    var app: String?
    /// A token of the job, in any case.
    var token: String?
    /// Unix seconds: only letters from before.
    var before: Int64?
    /// The apps of the settings by topic; needed for `app`.
    var routes = AppRoutes(names: [], topics: [], certified: [])
    /// The names of the apps, in the order of `routes`.
    var names: [String] = []

    var isEmpty: Bool { reason == nil && app == nil && token == nil && before == nil }

    func matches(_ letter: DeadLetter) -> Bool {
        if let reason, letter.reason != reason, letter.statusAndReason != reason { return false }
        if let before, letter.at >= before { return false }
        if app == nil && token == nil { return true }
        let facts = JobFacts(letter.job)
        if let token {
            let tokens = [letter.token].compactMap(\.self) + (facts?.tokens ?? [])
            if !tokens.contains(where: { $0.lowercased() == token.lowercased() }) { return false }
        }
        guard let app else { return true }
        guard let number = routes.app(name: facts?.app, topic: facts?.topic) else { return facts?.app == app }
        return names[number] == app
    }
}

extension DeadLetterFilter {
    /// - Parameter now: Unix seconds.
    init(reason: String?, app: String?, token: String?, older: Duration?, _ settings: Settings, now: Int64) {
        (self.reason, self.app, self.token) = (reason, app, token)
        before = older.map { now - Int64(min($0 / .seconds(1), 1e12)) }
        routes = AppRoutes(settings)
        names = settings.apps.map { $0.name ?? PauseNote.topLevel }
    }
}

extension DeadLetter {
    /// `410 Unregistered`, or the reason alone if there is no status.
    var statusAndReason: String { (status.map { "\($0) " } ?? "") + reason }
}
