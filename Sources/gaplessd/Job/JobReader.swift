internal import JSONBytes
import PushPool

/// Parses an element of the queue. Any bytes give a job within its bounds or a `JobError`.
struct JobReader: Sendable {
    /// Hex digits. Tokens have no fixed length ("Registering your app with APNs"); this limit bounds `:path`.
    static let longestToken = 1000
    /// Characters of a token with its blanks and brackets.
    static let longestRawToken = 2 * longestToken
    /// Tokens in one job: more would delay the jobs behind it.
    static let mostTokens = 100_000
    /// Bytes of `topic`, `push_type` and `app`. With a path of 1,000 digits all headers stay below the 8,000 that APNs' SETTINGS
    /// allow (MAX_HEADER_LIST_SIZE).
    static let longestName = 1024
    /// Bytes ("Sending notification requests to APNs").
    static let longestCollapseID = 64
    /// Bytes.
    static let longestTrace = 128
    /// Bytes.
    static let longestReplaces = 64
    /// Bytes. Apple documents no size; ids have 24.
    static let longestChannelMark = 1000
    /// Bytes. The name is part of a key.
    static let longestCampaign = 64
    /// Seconds of `over`: a year.
    static let longestOver = 31_536_000.0
    /// Characters of a channel id. Apple states no limit; its ids have 24.
    static let longestChannel = 1000
    /// Seconds before or after 1970 whose milliseconds a `Double`, the type of a score in Redis, stores exactly.
    static let farthestTime = 0x1p53 / 1000

    var retryLimit: Int
    private var appNames: Set<String>
    /// `nil` if no app has a topic with a suffix.
    private var suffixedTopics: [String?: PushTopic]?

    /// - Parameters:
    ///   - retryLimit: the largest valid retry marker.
    ///   - appNames: the valid values of `app`.
    ///   - suffixedTopics: the topics of the apps, as far as they have the suffix of a push type; the top level has no name.
    init(retryLimit: Int, appNames: Set<String>, suffixedTopics: [String?: PushTopic] = [:]) {
        self.retryLimit = retryLimit
        self.appNames = appNames
        self.suffixedTopics = suffixedTopics.isEmpty ? nil : suffixedTopics
    }

    /// Adds an app, or changes its topic. The name of a removed app stays valid.
    mutating func set(app: String?, topic: String?) {
        if let app { appNames.insert(app) }
        let topic = topic.map(PushTopic.init)
        let suffixed = topic?.pushType == nil ? nil : topic
        if suffixed == nil && suffixedTopics?[app] == nil { return }
        var topics = suffixedTopics ?? [:]
        topics[app] = suffixed
        suffixedTopics = topics.isEmpty ? nil : topics
    }

    mutating func read(_ bytes: [UInt8]) throws(JobError) -> Job {
        let members = try Self.members(of: bytes)
        let target = try members.target()
        let app = try members.app(of: appNames)
        let (topic, pushType, origin) = try topicAndPushType(members, app: app)
        let isRare = members.hasRare || origin == .mistaken || origin == .payload && pushType != "background"
        return Job(
            bytes: bytes,
            target: target,
            data: try members.data(pushType: pushType),
            identifier: try members.identifier(),
            attempts: members.attempts(limit: retryLimit),
            expiry: try members.expiry(pushType: pushType),
            deadline: members.deadline(),
            pushType: pushType,
            priority: try members.priority(pushType: pushType),
            rare: isRare ? try rareMembers(members, app: app, topic: topic, pushType: pushType, origin) : nil)
    }

    /// Returns the name and the topic that select the app of a job; its other members may have faults.
    ///
    /// - Throws: if the job is not a JSON object, or belongs to no app.
    func selectors(of bytes: [UInt8]) throws(JobError) -> (app: String?, topic: String?) {
        let members = try Self.members(of: bytes)
        if let app = try members.app(of: appNames) { return (app, nil) }
        let (topic, pushType, _) = try topicAndPushType(members, app: nil)
        return (nil, try topic.flatMap { topic throws(JobError) in try members.topic(topic, pushType: pushType) })
    }

    /// Returns the topic of the job, or that of its app if it has a suffix; and the push type, named or derived.
    @inline(__always)
    private func topicAndPushType(
        _ members: borrowing JobMembers, app: String?
    ) throws(JobError) -> (topic: PushTopic?, pushType: String, origin: PushTypeOrigin) {
        let own = try members.name(.topic).map(PushTopic.init)
        let ofApp = own == nil ? suffixedTopics?[app] : nil
        if let pushType = try members.name(.pushType) { return (own ?? ofApp, pushType, .named) }
        let (pushType, origin) = try members.derivedPushType(own: own, ofApp: ofApp)
        return (own ?? ofApp, pushType, origin)
    }

    /// The headers of a valid job that it does not name, each with its origin in words.
    func derivedHeaders(of job: [UInt8]) -> [(name: String, origin: String)] {
        do throws(JobError) {
            let members = try Self.members(of: job)
            let (topic, pushType, origin) = try topicAndPushType(members, app: try members.app(of: appNames))
            var derived: [(name: String, origin: String)] = []
            if members[.topic] == nil && !members.isBroadcast {
                let isChanged = members.topicSuffix(ofApp: topic, pushType: pushType, origin) != nil
                derived.append(("apns-topic", isChanged ? "the bundle ID of the app and the push type" : "the app"))
            }
            switch origin {
            case .named: break
            case .topic: derived.append(("apns-push-type", "topic"))
            case .topicOfApp: derived.append(("apns-push-type", "the topic of the app"))
            case .channel:
                derived.append(("apns-push-type", members[.channel] == nil ? "channel_name" : "channel"))
            case .payload: derived.append(("apns-push-type", members.reasonInPayload ?? "data"))
            case .none, .mistaken: derived.append(("apns-push-type", "the default"))
            }
            if members[.priority] == nil { derived.append(("apns-priority", "the push type")) }
            return derived
        } catch {
            return []
        }
    }

    /// - Parameter topic: the job's own, or that of its app if it has a suffix.
    private func rareMembers(
        _ members: borrowing JobMembers, app: String?, topic: PushTopic?, pushType: String, _ origin: PushTypeOrigin
    ) throws(JobError) -> Job.Rare? {
        var rare = Job.Rare.Members(app: app, topicSuffix: members.topicSuffix(ofApp: topic, pushType: pushType, origin))
        rare.topic = try topic.flatMap { topic throws(JobError) in try members.topic(topic, pushType: pushType) }
        rare.collapseID = try members.name(.collapseID, most: Self.longestCollapseID)
        rare.apnsID = try members.apnsID() ?? members.firstAPNSID()
        rare.trace = try members.trace()
        rare.campaign = try members.name(.campaign, most: Self.longestCampaign) ?? members.campaignMark()
        rare.notBefore = try members.notBefore()
        rare.doubtful = members.doubtful()
        rare.replaces = try members.replaces()
        rare.rank = members.rank()
        if rare.replaces != nil || members.isBroadcast { rare.event = members.event() }
        if members[.channelName] != nil {
            rare.channelName = try members.name(.channelName, most: ChannelName.longest)
            rare.channelMark = members.channelMark()
            rare.hasDefaultExpiry = members[.expiry] == nil && members[.expiresAt] == nil
        }
        rare.hasMistake = origin == .mistaken
        rare.frame = Job.Frame(of: members)
        if let frame = rare.frame, frame.byteCount > Job.Frame.mostBytes {
            throw .structure("a job with tokens has \(frame.byteCount) bytes besides them, more than \(Job.Frame.mostBytes)")
        }
        return rare == Job.Rare.Members() ? nil : Job.Rare(rare)
    }

    private static func members(of bytes: [UInt8]) throws(JobError) -> JobMembers {
        do {
            return try JobMembers(of: bytes)
        } catch {
            throw .unmarshal("expected \(error.expected.rawValue)", at: error.offset, hint: error.mistake(in: bytes))
        }
    }

    /// The members of an element that is not a job which its dead letter repeats.
    struct Identity {
        /// The JSON of the identifier.
        var identifier: [UInt8]?
        var token: String?
        var trace: String?
        var campaign: String?
    }

    /// Returns nothing of an element that is not a JSON object.
    static func identity(of bytes: [UInt8]) -> Identity {
        guard let members = try? JobMembers(of: bytes) else { return Identity() }
        var identity = Identity()
        identity.trace = (try? members.trace()) ?? nil
        identity.campaign = (try? members.name(.campaign, most: longestCampaign)) ?? nil
        do { identity.identifier = Job.identifierJSON(try members.identifier(), of: bytes) } catch { identity.identifier = nil }
        // An escape takes six bytes at most for one byte of the text.
        if let token = members[.token], token.kind == .string, token.content.count <= 6 * longestToken {
            let text = token.text(in: bytes.span)
            if text.utf8.count <= longestToken { identity.token = text }
        }
        return identity
    }
}
