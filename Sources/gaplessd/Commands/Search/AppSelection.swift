/// Selects the jobs of one app as the daemon does.
///
/// A job belongs to no app if it is not JSON, or names an unknown app, or a push type that does not go with its topic.
struct AppSelection {
    /// The name of the app, or of the top level.
    private let app: String
    private let routes: AppRoutes
    private let reader: JobReader

    init(_ app: String, _ routes: AppRoutes) {
        (self.app, self.routes, reader) = (app, routes, routes.reader(retryLimit: 0))
    }

    func matches(_ job: [UInt8]) -> Bool {
        guard let (name, topic) = try? reader.selectors(of: job), let number = routes.app(name: name, topic: topic) else {
            return false
        }
        return (routes.names[number] ?? PauseNote.topLevel) == app
    }
}
