import Platform
import PushPool

/// The responses of APNs to one app since the start of this process, by kind, and their latencies.
struct ResponseFigures: Sendable, Equatable {
    private(set) var accepted = 0
    private var others: [ResponseKind: Int] = [:]
    /// All outcomes.
    private(set) var count = 0
    /// Responses that are not acceptances.
    private var rejected = 0
    /// From the claim to the moment when the request left for the wire, from there to the response, and both together. With
    /// `PoolSettings.recordsTimes` only.
    private(set) var toWire = LatencyHistogram()
    private(set) var toResponse = LatencyHistogram()
    private(set) var total = LatencyHistogram()

    mutating func countAcceptance() {
        accepted += 1
        count += 1
    }

    /// Counts an outcome that is not an acceptance. Returns whether it is a response of APNs, whose latency counts.
    mutating func count(_ outcome: Outcome) -> Bool {
        if let kind = ResponseKind(outcome) {
            others[kind, default: 0] += 1
            count += 1
        }
        guard case .rejected = outcome else { return false }
        rejected += 1
        return true
    }

    /// Adds what another app has counted since an earlier state.
    mutating func add(_ other: ResponseFigures, since earlier: ResponseFigures) {
        accepted += other.accepted - earlier.accepted
        for (kind, number) in other.others where number > earlier.others[kind, default: 0] {
            others[kind, default: 0] += number - earlier.others[kind, default: 0]
        }
        count += other.count - earlier.count
        rejected += other.rejected - earlier.rejected
        toWire.add(other.toWire.since(earlier.toWire))
        toResponse.add(other.toResponse.since(earlier.toResponse))
        total.add(other.total.since(earlier.total))
    }

    /// All responses of APNs.
    var responses: Int { accepted + rejected }

    /// Counts the latencies of a response.
    mutating func record(claimed: Instant, _ times: AttemptTimes) {
        toWire.record(times.sent - claimed)
        toResponse.record(times.ended - times.sent)
        total.record(times.ended - claimed)
    }

    /// The number of outcomes of each kind, in order of status and reason.
    var kinds: [(kind: ResponseKind, count: Int)] {
        var all = others
        if accepted > 0 { all[.accepted] = accepted }
        return all.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}

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
