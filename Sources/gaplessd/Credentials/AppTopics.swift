import PushPool

/// The topics of the apps by the settings and the certificates, for calls that send nothing: they need no key, no root
/// certificate and no valid date.
struct AppTopics {
    let routes: AppRoutes
    /// Of the certificates that cannot be read. `routes` is without their topics.
    let faults: [SettingsError]
    /// The apps whose certificates cannot be read.
    private let unread: Set<Int>

    init(_ apps: [AppFiles]) {
        var loader = CredentialLoader(now: 0, stateFolder: nil)
        let facts = apps.map { loader.facts($0) }
        routes = AppRoutes(
            names: apps.map(\.name), topics: zip(apps, facts).map { $0.app?.topic ?? $1?.defaultTopic },
            certified: facts.map { $0?.allTopics ?? [] })
        faults = loader.findings.faults
        unread = Set(apps.indices.filter { facts[$0] == nil && apps[$0].credential.namesCertificate })
    }

    /// Returns why no app can send the job. Returns `nil` if one can, and if a certificate that cannot be read may make it
    /// possible.
    func fault(of job: borrowing Job) -> JobError? {
        do {
            _ = try routes.app(for: job)
            return nil
        } catch {
            // Any certificate may have the topic of the job, and that of its app the missing topic.
            if job.topic != nil { return unread.isEmpty ? error : nil }
            guard let app = routes.app(name: job.app, topic: nil) else { return error }
            return unread.contains(app) ? nil : error
        }
    }
}
