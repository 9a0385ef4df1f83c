import PushPool

/// The status and reason of a response, or the reason why there is none. The number of values is bounded, whatever a server
/// sends.
struct ResponseKind: Sendable, Hashable, Comparable {
    /// Three digits, `other`, or `none` without a response.
    let status: String
    let reason: String

    static let accepted = ResponseKind(status: "200", reason: "Accepted")
    static let timeout = ResponseKind(status: "none", reason: "Timeout")
    static let connectionLost = ResponseKind(status: "none", reason: "ConnectionLost")

    private static let other = "other"

    private init(status: String, reason: String) { (self.status, self.reason) = (status, reason) }

    init(_ rejection: Rejection) {
        status = Self.statuses.contains(rejection.status) ? String(rejection.status) : Self.other
        reason = Self.reasons.contains(rejection.reason) ? rejection.reason : Self.other
    }

    /// `nil` for an outcome that says nothing about APNs: the request was not sent, or its outcome follows.
    init?(_ outcome: Outcome) {
        switch outcome {
        case .delivered: self = .accepted
        case .rejected(let rejection): self.init(rejection)
        case .timedOut: self = .timeout
        case .maybeProcessed: self = .connectionLost
        case .notProcessed, .outdated, .begun: return nil
        }
    }

    static func < (left: ResponseKind, right: ResponseKind) -> Bool {
        (left.status, left.reason) < (right.status, right.reason)
    }

    private static let statuses: Set<Int> = [400, 403, 404, 405, 408, 410, 413, 421, 429, 500, 502, 503, 504]

    /// Apple's reasons for pushes and broadcasts ("Handling notification responses from APNs", "Handling error responses from
    /// Apple Push Notification service").
    private static let reasons: Set<String> = HoldReason.badEnvironmentKey.union([
        "BadCollapseId", "BadDeviceToken", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic",
        "DeviceTokenNotForTopic", "DuplicateHeaders", "IdleTimeout", "InvalidPushType", "MissingDeviceToken", "MissingTopic",
        "PayloadEmpty", "TopicDisallowed", "BadCertificate", "BadCertificateEnvironment", "ExpiredProviderToken", "Forbidden",
        "InvalidProviderToken", "MissingProviderToken", "UnrelatedKeyIdInToken", "BadPath", "MethodNotAllowed", "ExpiredToken",
        "Unregistered", "PayloadTooLarge", "TooManyProviderTokenUpdates", "TooManyRequests", "InternalServerError",
        "ServiceUnavailable", "Shutdown", "BadChannelId", "BadRequestParams", "BadRequestPayload", "CannotCreateChannelConfig",
        "ChannelNotRegistered", "FeatureNotEnabled", "MissingChannelId", "MissingPushType", "TopicMismatch",
    ])
}
