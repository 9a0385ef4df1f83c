import PushPool

/// Which app a job is for.
struct AppRoutes {
    private var byName: [String: Int] = [:]
    private var byTopic: [String: Int] = [:]
    /// The app without a name, if the settings have one.
    private let topLevel: Int?

    /// - Parameters:
    ///   - names: of the apps, in order.
    ///   - credentials: theirs.
    init(names: [String?], _ credentials: [AppCredential]) {
        topLevel = names.firstIndex(of: nil)
        for (index, name) in names.enumerated() { if let name { byName[name] = index } }
        // A topic goes to the first app whose own it is, and only where there is none to one whose certificate is for it as well.
        let own = credentials.map { credential in credential.topic.map { [$0] } ?? [] }
        let certified = credentials.map { $0.credential.certificate?.allTopics ?? [] }
        for (index, topics) in Array(own.enumerated()) + Array(certified.enumerated()) {
            for topic in topics where byTopic[topic] == nil { byTopic[topic] = index }
        }
    }

    /// The app that is named, else the one whose topic it is, else that of the top level.
    func app(name: String?, topic: String?) -> Int? {
        if let name { return byName[name] }
        // With no names there is nothing to choose.
        if !byName.isEmpty, let topic, let index = byTopic[topic] { return index }
        return topLevel
    }
}
