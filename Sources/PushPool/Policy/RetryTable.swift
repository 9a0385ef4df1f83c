/// The meaning of APNs' responses other than 2xx: the first row that fits applies. docs/answers.md lists them one by one.
package enum RetryTable {
    package enum Meaning: Sendable, Equatable {
        /// The job is at fault: dead letter.
        case final
        /// The token is no longer valid: dead letter, and an entry in the feedback list.
        case deadToken
        /// A bad token, or the wrong environment.
        case suspectToken
        /// A refused topic: the job is at fault, or the settings are.
        case topic
        /// A refused topic or channel: the job is at fault if it names one of them.
        case topicOrChannel
        /// The session ends: the first time it costs no retry.
        case sessionEnd
        case expiredProviderToken
        /// The credential is at fault, not the job.
        case credential
        /// The provider token changed too often.
        case tokenUpdates
        /// A temporary error: counted retry.
        case passing
        /// As `passing`, for one device.
        case tooManyToOne
        /// As `passing`, for every job of the credential.
        case tooManyToAll
    }

    package struct Row: Sendable {
        package let statuses: ClosedRange<Int>
        /// `nil` is any.
        package let reason: String?
        package let meaning: Meaning

        init(_ statuses: ClosedRange<Int>, _ reason: String?, _ meaning: Meaning) {
            self.statuses = statuses
            self.reason = reason
            self.meaning = meaning
        }

        init(_ status: Int, _ reason: String?, _ meaning: Meaning) { self.init(status...status, reason, meaning) }
    }

    package static let rows = [
        Row(400, "BadDeviceToken", .suspectToken),
        Row(400, "DeviceTokenNotForTopic", .suspectToken),
        Row(400, "BadTopic", .topic),
        Row(400, "MissingTopic", .topic),
        Row(400, "TopicDisallowed", .topic),
        Row(400, "IdleTimeout", .sessionEnd),
        Row(403, "ExpiredProviderToken", .expiredProviderToken),
        Row(403, "TopicMismatch", .topicOrChannel),
        Row(403, "BadTopic", .topicOrChannel),
        Row(403, "MissingTopic", .topicOrChannel),
        Row(403, "TopicDisallowed", .topicOrChannel),
        Row(403, "BadChannelId", .topicOrChannel),
        Row(403, "ChannelNotRegistered", .topicOrChannel),
        Row(403, nil, .credential),
        Row(408, nil, .passing),
        Row(410, nil, .deadToken),
        Row(429, "TooManyProviderTokenUpdates", .tokenUpdates),
        Row(429, "TooManyRequests", .tooManyToOne),
        Row(429, nil, .tooManyToAll),
        Row(503, "Shutdown", .sessionEnd),
        Row(500...Int.max, nil, .passing),
        // BadCollapseId, BadExpirationDate, BadMessageId, BadPriority, DuplicateHeaders, InvalidPushType, MissingDeviceToken,
        // PayloadEmpty, 404 BadPath, 405 MethodNotAllowed, 413 PayloadTooLarge, and any reason that Apple adds.
        Row(Int.min...Int.max, nil, .final),
    ]

    package static func meaning(of status: Int, _ reason: String) -> Meaning {
        let row = rows.first { $0.statuses.contains(status) && ($0.reason == nil || $0.reason == reason) }
        return row?.meaning ?? .final
    }
}
