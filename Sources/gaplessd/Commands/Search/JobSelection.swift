/// Selects jobs for `cancel`. All given conditions must hold.
struct JobSelection {
    /// In any case.
    var token: String?
    var identifier: String?
    /// The app that the job names by `app`, or by the `apns_topic` of the app.
    var app: String?
    /// The topic that the job names.
    var topic: String?
    private let routes: AppRoutes
    /// The names of the apps, in the order of `routes`.
    private let names: [String]

    init(token: String?, identifier: String?, app: String?, topic: String?, _ settings: Settings) {
        (self.token, self.identifier, self.app, self.topic) = (token?.lowercased(), identifier, app, topic)
        routes = AppRoutes(settings)
        names = settings.apps.map { $0.name ?? PauseNote.topLevel }
    }

    var isEmpty: Bool { token == nil && identifier == nil && app == nil && topic == nil }

    func matches(_ job: [UInt8]) -> Bool {
        if isEmpty { return true }
        guard let facts = JobFacts(job) else { return false }
        if let token, !facts.tokens.contains(where: { $0.lowercased() == token }) { return false }
        if let identifier, facts.identifier != identifier { return false }
        if let topic, facts.topic != topic { return false }
        guard let app else { return true }
        guard let number = routes.app(name: facts.app, topic: facts.topic) else { return facts.app == app }
        return names[number] == app
    }
}
