import PushPool

/// The topics of the apps by the settings and the certificates, for calls that send nothing: they need no key, no root
/// certificate and no valid date.
struct AppTopics {
    let routes: AppRoutes
    /// Of the certificates that cannot be read. `routes` is without their topics.
    let faults: [SettingsError]

    init(_ apps: [AppFiles]) {
        var loader = CredentialLoader(now: 0, stateFolder: nil)
        let facts = apps.map { loader.facts($0) }
        routes = AppRoutes(
            names: apps.map(\.name), topics: zip(apps, facts).map { $0.app?.topic ?? $1?.defaultTopic },
            certified: facts.map { $0?.allTopics ?? [] })
        faults = loader.findings.faults
    }
}
