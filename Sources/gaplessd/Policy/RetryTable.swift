/// What APNs' answers other than 200 mean (docs/answers.md has them one by one, docs/design.md in short):
/// the first row that fits counts.
enum RetryTable {
    enum Meaning: Sendable, Equatable {
        /// The job is at fault: dead letter.
        case final
        /// The token is no good any more: dead letter, and the feedback list hears of it.
        case deadToken
        /// A bad token, or the wrong environment.
        case suspectToken
        /// A topic that is refused: the job's fault, or that of the settings.
        case topic
        /// The session says goodbye: the first time it costs nothing.
        case farewell
        case expiredProviderToken
        /// The credential is at fault, not the job.
        case credential
        /// The provider token changed too often.
        case tokenUpdates
        /// It may pass: counted retry.
        case passing
        /// As `passing`, and it is about this one device.
        case tooManyToOne
        /// As `passing`, and it is about all that the credential sends.
        case tooManyToAll
    }

    struct Row: Sendable {
        let statuses: ClosedRange<Int>
        /// `nil` is any.
        let reason: String?
        let meaning: Meaning

        init(_ statuses: ClosedRange<Int>, _ reason: String?, _ meaning: Meaning) {
            self.statuses = statuses
            self.reason = reason
            self.meaning = meaning
        }

        init(_ status: Int, _ reason: String?, _ meaning: Meaning) { self.init(status...status, reason, meaning) }
    }

    static let rows = [
        Row(400, "BadDeviceToken", .suspectToken),
        Row(400, "DeviceTokenNotForTopic", .suspectToken),
        Row(400, "BadTopic", .topic),
        Row(400, "MissingTopic", .topic),
        Row(400, "TopicDisallowed", .topic),
        Row(400, "IdleTimeout", .farewell),
        Row(403, "ExpiredProviderToken", .expiredProviderToken),
        Row(403, nil, .credential),
        Row(408, nil, .passing),
        Row(410, nil, .deadToken),
        Row(429, "TooManyProviderTokenUpdates", .tokenUpdates),
        Row(429, "TooManyRequests", .tooManyToOne),
        Row(429, nil, .tooManyToAll),
        Row(503, "Shutdown", .farewell),
        Row(500...Int.max, nil, .passing),
        // BadCollapseId, BadExpirationDate, BadMessageId, BadPriority, DuplicateHeaders, InvalidPushType, MissingDeviceToken,
        // PayloadEmpty, 404 BadPath, 405 MethodNotAllowed, 413 PayloadTooLarge, and whatever Apple may think of.
        Row(Int.min...Int.max, nil, .final),
    ]

    static func meaning(of status: Int, _ reason: String) -> Meaning {
        let row = rows.first { $0.statuses.contains(status) && ($0.reason == nil || $0.reason == reason) }
        return row?.meaning ?? .final
    }
}
