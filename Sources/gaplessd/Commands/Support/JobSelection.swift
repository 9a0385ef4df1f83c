import JSONBytes
import RedisQueue

/// Selects jobs for `cancel`. All given conditions must hold.
struct JobSelection {
    /// In any case.
    var token: String?
    var identifier: String?
    var app: AppSelection?
    /// The topic that the job names.
    var topic: String?
    var campaign: String?
    /// Texts that a matching job without escapes contains: a search for them is much faster than reading the job.
    private let needles: [[UInt8]]

    init(
        token: String? = nil, identifier: String? = nil, app: AppSelection? = nil, topic: String? = nil, campaign: String? = nil
    ) {
        (self.token, self.identifier, self.app) = (token.map(Job.bareToken)?.lowercased(), identifier, app)
        (self.topic, self.campaign) = (topic, campaign)
        // A job without an identifier has the identifier 0.
        needles = [identifier == "0" ? nil : identifier, topic, campaign].compactMap { $0.map { Array($0.utf8) } }
    }

    var isEmpty: Bool { token == nil && identifier == nil && app == nil && topic == nil && campaign == nil }

    /// The campaign, if it is the only condition.
    var onlyCampaign: String? { token == nil && identifier == nil && app == nil && topic == nil ? campaign : nil }

    func matches(_ job: [UInt8]) -> Bool {
        if isEmpty { return true }
        if !needles.isEmpty, !mayMatch(job.span) { return false }
        guard let facts = JobFacts(job) else { return false }
        if let token, !facts.tokens.contains(where: { $0.lowercased() == token }) { return false }
        if let identifier, facts.identifier != identifier { return false }
        if let topic, facts.topic != topic { return false }
        if let campaign, facts.campaign != campaign { return false }
        return app?.matches(job) ?? true
    }

    /// Whether the job has escapes, or all needles.
    private func mayMatch(_ job: Span<UInt8>) -> Bool {
        needles.allSatisfy { contains($0.span, in: job) } || contains([UInt8(ascii: "\\")].span, in: job)
    }

    private func contains(_ needle: Span<UInt8>, in job: Span<UInt8>) -> Bool {
        if needle.isEmpty { return true }
        let first = needle[0]
        var at = 0
        while at + needle.count <= job.count {
            if job[at] == first {
                var same = 1
                while same < needle.count, job[at + same] == needle[same] { same += 1 }
                if same == needle.count { return true }
            }
            at += 1
        }
        return false
    }
}

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
        guard let (name, topic) = try? reader.selectors(of: job) else { return false }
        if let former = routes.formerApp(name: name, topic: topic) { return former == app }
        guard let number = routes.app(name: name, topic: topic) else { return false }
        return (routes.name(of: number) ?? PauseNote.topLevel) == app
    }
}

/// The members of a job by which an operator looks for it. Any JSON object has facts, also one that is not a valid job.
struct JobFacts {
    var tokens: [String] = []
    /// The channel of a broadcast.
    var channel: String?
    /// The text of the identifier: digits, or a string without its quotes; 0 for a job without one.
    var identifier: String?
    /// Whether the job has an identifier.
    var namesIdentifier = false
    var app: String?
    var topic: String?
    var trace: String?
    var campaign: String?
    /// `apns_id`, and the id in APNs' first response.
    var apnsIDs: [String] = []

    /// `nil` for bytes that are not a JSON object.
    init?(_ job: [UInt8]) {
        if let token = CampaignToken(job) {
            tokens = [Job.bareToken(String(decoding: token.token, as: UTF8.self))]
            campaign = token.campaign
            return
        }
        let members = NamedMembers(job)
        guard members.isWhole else { return nil }
        if let token = members.text("token") { tokens.append(Job.bareToken(token)) }
        if let array = members["tokens"], array.kind == .array, let tree = try? JSONValue.parse(Array(job[array.range])),
            case .array(let elements) = tree
        {
            tokens += elements.compactMap(\.stringValue).map(Job.bareToken)
        }
        if [members["token"], members["tokens"]].allSatisfy({ $0 == nil || $0?.kind == .null }) {
            channel = members.text("channel") ?? members.text("channel_name")
        }
        if let value = members["identifier"], value.kind != .null {
            namesIdentifier = true
            identifier = value.kind == .string || value.kind == .number ? value.text(in: job.span) : nil
        } else {
            identifier = "0"
        }
        (app, topic, trace) = (members.text("app"), members.text("topic"), members.text("trace"))
        campaign = members.text("campaign") ?? members.text("_gapless_campaign")
        apnsIDs = [members.text("apns_id"), members.text("_gapless_apns_id")].compactMap(\.self)
    }
}
