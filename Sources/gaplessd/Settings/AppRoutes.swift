import PushPool

/// Selects the app of a job. Apps are numbered; a number is never used for another app.
struct AppRoutes {
    /// One app, as far as jobs select it.
    struct App: Equatable {
        /// `nil` for the top level.
        var name: String?
        /// For jobs that name none.
        var topic: String?
        /// All topics of its certificate.
        var certified: [String] = []
        /// Whether it may have any topic: it is held, because its certificate or its file cannot be read.
        var hasUnknownTopics = false
        /// The settings no longer have it: its jobs wait.
        var isRemoved = false

        fileprivate var topics: Set<String> { Set(certified).union(topic.map { [$0] } ?? []) }
    }

    private var apps: [App] = []
    private var byName: [String: Int] = [:]
    private var byTopic: [String: Int] = [:]
    /// All apps with a topic.
    private var claimants: [String: Set<Int>] = [:]
    /// The app without a name.
    private var topLevel: Int?
    /// The topics of apps that daemons of the list have had, and the settings do not: their jobs wait.
    private var former: [String: String] = [:]
    private var formerByTopic: [String: String] = [:]
    /// Held apps that may have any topic, in order.
    private var unread: [Int] = []
    /// Whether the certificate of the top level restricts its topics.
    private var isTopLevelCertified: Bool { topLevel.map { !apps[$0].certified.isEmpty } ?? false }

    init(_ apps: [App] = []) {
        for (index, app) in apps.enumerated() { set(app, at: index) }
    }

    /// The topic of an app for jobs that name none.
    func topic(of app: Int) -> String? { apps[app].topic }

    /// Adds the next app, or replaces one of the same name.
    mutating func set(_ app: App, at index: Int) {
        var topics = app.topics
        if index < apps.count {
            if apps[index] == app { return }
            topics.formUnion(apps[index].topics)
            apps[index] = app
        } else {
            apps.append(app)
        }
        if let name = app.name {
            byName[name] = index
            if let topic = former.removeValue(forKey: name), formerByTopic[topic] == name { formerByTopic[topic] = nil }
        } else {
            topLevel = index
        }
        unread.removeAll { $0 == index }
        if app.hasUnknownTopics && !app.isRemoved { unread.insert(index, at: unread.firstIndex { $0 > index } ?? unread.count) }
        for topic in topics {
            if app.topics.contains(topic) { claimants[topic, default: []].insert(index) } else { claimants[topic]?.remove(index) }
            choose(topic, changed: index)
        }
    }

    /// Gives the topic to the best of its apps, after a change of one of them. Thousands of apps may have the same topic: they
    /// are searched only if the app that had it has changed.
    private mutating func choose(_ topic: String, changed index: Int) {
        if let best = byTopic[topic], best != index {
            if apps[index].topics.contains(topic), rank(index, topic) < rank(best, topic) { byTopic[topic] = index }
            return
        }
        let best = claimants[topic]?.min { rank($0, topic) < rank($1, topic) }
        byTopic[topic] = best
        if best == nil { claimants[topic] = nil }
    }

    /// An app's own topic takes precedence over a topic that a certificate of another app covers, and an app of the settings over
    /// a removed one.
    private func rank(_ index: Int, _ topic: String) -> (Int, Int, Int) {
        (apps[index].isRemoved ? 1 : 0, apps[index].topic == topic ? 0 : 1, index)
    }

    /// The number of the app with this name; an empty one is the top level.
    func index(ofName name: String) -> Int? { name.isEmpty ? topLevel : byName[name] }

    /// These apps wait for their return, unless the settings have them.
    ///
    /// - Parameter apps: with their topics.
    mutating func remember(_ apps: [String: String]) {
        for (name, topic) in apps where byName[name] == nil && !name.isEmpty {
            former[name] = topic
            if !topic.isEmpty { formerByTopic[topic] = name }
        }
    }

    var hasFormer: Bool { !former.isEmpty }
    func isFormer(_ name: String) -> Bool { former[name] != nil }

    /// Returns the app that the settings had before, and that a job selects. An app of the settings takes precedence, also the
    /// top level, unless its certificate restricts its topics.
    func formerApp(name: String?, topic: String?) -> String? {
        if former.isEmpty { return nil }
        if let name { return isFormer(name) ? name : nil }
        guard let topic else { return nil }
        let bundle = PushTopic(topic).bundleID
        if !unread.isEmpty || byTopic[topic] ?? byTopic[bundle] != nil { return nil }
        if let topLevel, !apps[topLevel].isRemoved, !isTopLevelCertified { return nil }
        return formerByTopic[topic] ?? formerByTopic[bundle]
    }

    /// The name of an app; `nil` for the top level.
    func name(of app: Int) -> String? { apps[app].name }

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
        if job.topic == nil && apps[app].topic == nil && !apps[app].hasUnknownTopics {
            let name = apps[app].name.map { "app \"\($0)\"" } ?? "the top level"
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
        let own = apps[app].topic.map { $0 == topic || $0 == bundle } ?? false
        let name = byTopic[topic] == nil ? bundle : topic
        return "the app has the topic \(name)" + (own ? "" : ", by its certificate")
    }

    /// The reader of the jobs of these apps.
    func reader(retryLimit: Int) -> JobReader {
        JobReader(
            retryLimit: retryLimit, appNames: Set(apps.compactMap(\.name)).union(former.keys),
            suffixedTopics: PushTopic.suffixed(apps.map { ($0.name, $0.topic) }))
    }
}

extension AppRoutes {
    init(_ apps: [Settings.App]) { self.init(apps.map(App.init)) }
}

extension AppRoutes.App {
    init(_ app: Settings.App) {
        self.init(
            name: app.name, topic: app.defaultTopic, certified: app.certificate?.allTopics ?? [],
            hasUnknownTopics: app.hasUnknownTopics, isRemoved: app.isRemoved)
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
            apps.map { AppRoutes.App(name: $0.name, topic: $0.defaultTopic, certified: $0.certificate?.allTopics ?? []) })
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
