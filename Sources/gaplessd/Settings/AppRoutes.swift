import PushPool

/// Selects the app of a job.
struct AppRoutes {
    /// Of the apps, in order; `nil` for the top level.
    let names: [String?]
    /// Of each app, for jobs that name none.
    private let topics: [String?]
    private var byName: [String: Int] = [:]
    private var byTopic: [String: Int] = [:]
    /// The app without a name.
    private let topLevel: Int?
    /// Held apps with a certificate that cannot be read: it may have any topic.
    private let unread: [Int]
    /// Whether the certificate of the top level restricts its topics.
    private let isTopLevelCertified: Bool

    /// - Parameters:
    ///   - names: of the apps, in order.
    ///   - topics: the topic of each app for jobs that name none.
    ///   - certified: all topics of each app's certificate.
    ///   - unread: the apps with a certificate that cannot be read, in order.
    init(names: [String?], topics: [String?], certified: [[String]], unread: [Int] = []) {
        (self.names, self.topics, self.unread) = (names, topics, unread)
        isTopLevelCertified = names.firstIndex(of: nil).map { !certified[$0].isEmpty } ?? false
        topLevel = names.firstIndex(of: nil)
        for (index, name) in names.enumerated() { if let name { byName[name] = index } }
        // An app's own topic takes precedence over a topic that a certificate of another app covers.
        for (index, topics) in Array(topics.map { $0.map { [$0] } ?? [] }.enumerated()) + Array(certified.enumerated()) {
            for topic in topics where byTopic[topic] == nil { byTopic[topic] = index }
        }
    }

    /// The topic of an app for jobs that name none.
    func topic(of app: Int) -> String? { topics[app] }

    /// Returns the named app, else the app of the topic or of its bundle ID, else the top level.
    func app(name: String?, topic: String?) -> Int? {
        if let name { return byName[name] }
        // Without names there is only the top level.
        if !byName.isEmpty, let topic, let index = byTopic[topic] ?? byTopic[PushTopic(topic).bundleID] { return index }
        return topLevel
    }

    /// Returns the app that the job names by `app` or by `topic`, or else the top level. A job whose topic no app is known to
    /// have waits for a certificate that cannot be read.
    ///
    /// - Throws: if there is none, or if neither the job nor the app has a topic.
    func app(for job: borrowing Job) throws(JobError) -> Int {
        let found = app(name: job.app, topic: job.topic)
        if let held = unread.first, job.app == nil, let topic = job.topic, found == nil || isTopLevelCertified,
            byTopic[topic] ?? byTopic[PushTopic(topic).bundleID] == nil
        {
            return held
        }
        guard let app = found else {
            if let name = job.app { throw .structure("app \"\(name)\" is unknown") }
            let topic = job.topic.map { "no app has the topic \($0)" }
            throw .structure(topic ?? "app and topic are missing, and the settings have no credential at the top level")
        }
        if job.topic == nil && topics[app] == nil && !unread.contains(app) {
            let name = names[app].map { "app \"\($0)\"" } ?? "the top level"
            throw .structure("topic is missing, and \(name) has none")
        }
        return app
    }

    /// Returns why `app(for:)` has chosen an app, as a sentence without its end.
    func choice(of app: Int, for job: borrowing Job) -> String {
        if job.app != nil { return "the job names the app" }
        let others = byName.isEmpty ? "the settings have no other app" : "no other app has the topic of the job"
        guard let topic = job.topic else {
            return byName.isEmpty ? others : "the job names neither an app nor a topic"
        }
        let bundle = PushTopic(topic).bundleID
        guard byTopic[topic] ?? byTopic[bundle] == app, !byName.isEmpty else {
            return unread.contains(app)
                ? "no app is known to have the topic \(topic), and the certificate cannot be read" : others
        }
        let own = topics[app].map { $0 == topic || $0 == bundle } ?? false
        let name = byTopic[topic] == nil ? bundle : topic
        return "the app has the topic \(name)" + (own ? "" : ", by its certificate")
    }

    /// The reader of the jobs of these apps.
    func reader(retryLimit: Int) -> JobReader {
        JobReader(
            retryLimit: retryLimit, appNames: Set(names.compactMap(\.self)),
            suffixedTopics: PushTopic.suffixed(zip(names, topics).map { ($0, $1) }))
    }
}

extension AppRoutes {
    init(_ apps: [Settings.App]) {
        self.init(
            names: apps.map(\.name), topics: apps.map(\.defaultTopic), certified: apps.map { $0.certificate?.allTopics ?? [] },
            unread: apps.indices.filter { apps[$0].hasUnknownTopics })
    }
}

/// The topics of the apps by the settings and the certificates, for calls that send nothing: they need no key, no root
/// certificate and no valid date.
struct AppTopics {
    let routes: AppRoutes
    /// Of the certificates that cannot be read. `routes` is without their topics.
    let faults: [SettingsError]
    /// The apps whose certificates cannot be read.
    private let unread: Set<Int>

    init(_ apps: [Settings.App]) {
        var loader = CredentialLoader(now: 0, stateFolder: nil)
        var apps = apps
        for index in apps.indices { apps[index].certificate = loader.facts(apps[index]) }
        routes = AppRoutes(
            names: apps.map(\.name), topics: apps.map(\.defaultTopic), certified: apps.map { $0.certificate?.allTopics ?? [] })
        faults = loader.findings.faults
        unread = Set(apps.indices.filter { apps[$0].hasUnknownTopics })
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
