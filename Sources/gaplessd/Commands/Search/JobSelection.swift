/// Selects jobs for `cancel`. All given conditions must hold.
struct JobSelection {
    /// In any case.
    var token: String?
    var identifier: String?
    var app: AppSelection?
    /// The topic that the job names.
    var topic: String?

    init(token: String? = nil, identifier: String? = nil, app: AppSelection? = nil, topic: String? = nil) {
        (self.token, self.identifier, self.app, self.topic) = (token?.lowercased(), identifier, app, topic)
    }

    var isEmpty: Bool { token == nil && identifier == nil && app == nil && topic == nil }

    func matches(_ job: [UInt8]) -> Bool {
        if isEmpty { return true }
        guard let facts = JobFacts(job) else { return false }
        if let token, !facts.tokens.contains(where: { $0.lowercased() == token }) { return false }
        if let identifier, facts.identifier != identifier { return false }
        if let topic, facts.topic != topic { return false }
        return app?.matches(job) ?? true
    }
}
