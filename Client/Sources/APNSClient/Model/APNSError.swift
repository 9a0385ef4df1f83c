/// The reason why a push was not accepted.
public struct APNSError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kind of failure.
    public enum Cause: Sendable, Equatable, CaseIterable {
        /// The push or the configuration is invalid.
        case invalid
        /// APNs responded with an error: see ``APNSError/response``.
        case rejected
        /// APNs does not accept the credential, the topic of the configuration, or more pushes for a while. The client sends
        /// single pushes until APNs accepts one again, and fails all others.
        case held
        /// No session to APNs was open until the deadline.
        case unreachable
        /// The session ended, or APNs reset the stream.
        case connectionLost
        /// APNs did not respond within the request timeout.
        case noResponse
        /// The deadline of the push has passed.
        case deadlineExceeded
        /// ``Push/expiration`` had passed before the push could be sent.
        case expired
        /// The task was cancelled.
        case cancelled
        /// The client is shutting down.
        case shutDown
    }

    /// The knowledge about whether APNs has processed the push.
    public enum Fate: Sendable, Equatable {
        /// APNs has certainly not processed it: sending it again cannot cause a duplicate.
        case notSent
        /// APNs has refused it.
        case rejected
        /// It was or may have been sent, and no response will arrive: sending it again may cause a duplicate.
        case maybeSent
    }

    /// The meaning of the response for the device token.
    public enum Consequence: Sendable, Equatable {
        /// The response says nothing about the token, or there was none.
        case none
        /// Either the token or the environment is wrong.
        case suspect
        /// The token is no longer valid: delete it, unless the device registered it after ``Response/timestamp``.
        case dead
    }

    /// A response of APNs with a status other than 2xx.
    public struct Response: Sendable, Equatable {
        /// The HTTP status.
        public let status: Int
        /// The reason of APNs, for example `BadDeviceToken`; empty if there is none.
        public let reason: String
        /// The id of the push at APNs.
        public let apnsID: String?
        /// Milliseconds since 1970: with a 410, the last time at which APNs knew the token to be invalid.
        public let timestamp: Int64?

        /// For the stand-in of a client in a test.
        public init(status: Int, reason: String, apnsID: String? = nil, timestamp: Int64? = nil) {
            self.status = status
            self.reason = reason
            self.apnsID = apnsID
            self.timestamp = timestamp
        }
    }

    /// The kind of failure.
    public let cause: Cause
    /// Whether APNs may have processed the push. Earlier requests for the same push count too.
    public let fate: Fate
    /// The cause in words. It contains no device token and no secret.
    public let message: String
    /// The last response; `nil` if there was none.
    public internal(set) var response: Response?
    /// The time after which another try makes sense, as APNs or the circuit breaker states it.
    public internal(set) var retryAfter: Duration?
    /// The consequence of the response for the device token.
    public internal(set) var token = Consequence.none
    /// The number of requests that were made.
    public internal(set) var attempts = 0

    init(_ cause: Cause, _ fate: Fate, _ message: String) {
        self.cause = cause
        self.fate = fate
        self.message = message
    }

    /// For the stand-in of a client in a test.
    public init(
        _ cause: Cause, _ fate: Fate, message: String, response: Response? = nil, retryAfter: Duration? = nil,
        token: Consequence = .none, attempts: Int = 0
    ) {
        self.init(cause, fate, message)
        self.response = response
        self.retryAfter = retryAfter
        self.token = token
        self.attempts = attempts
    }

    /// Whether the same push may succeed later, and cannot arrive twice: APNs has certainly not processed it, and neither the
    /// push nor its time is at fault.
    public var isSafeToRetry: Bool {
        guard fate == .notSent else { return false }
        switch cause {
        case .held, .unreachable, .connectionLost, .noResponse, .deadlineExceeded, .cancelled, .shutDown: return true
        case .invalid, .rejected, .expired: return false
        }
    }

    static func invalid(_ message: String) -> APNSError { APNSError(.invalid, .notSent, message) }

    public var description: String {
        switch fate {
        case .notSent: "not sent: \(message)"
        case .rejected: "rejected: \(message)"
        case .maybeSent: "maybe sent: \(message)"
        }
    }
}

/// The acceptance of a push by APNs. It says nothing about the display on the device.
public struct Receipt: Sendable, Equatable {
    /// The id of the push at APNs; `nil` if the configuration does not ask for ids and the push has none of its own.
    public let apnsID: String?
    /// The number of requests that were made.
    public let attempts: Int
    /// Whether an earlier request may have been accepted too.
    public let mayBeDuplicate: Bool
    /// The id by which Apple's console finds the push in its delivery log. Only the sandbox sends it; `nil` if the configuration
    /// does not ask for ids.
    public internal(set) var uniqueID: String?

    /// For the stand-in of a client in a test.
    public init(apnsID: String? = nil, attempts: Int = 1, mayBeDuplicate: Bool = false, uniqueID: String? = nil) {
        self.apnsID = apnsID
        self.uniqueID = uniqueID
        self.attempts = attempts
        self.mayBeDuplicate = mayBeDuplicate
    }
}

/// The result of one push of a sequence.
public struct PushResult: Sendable {
    /// The place of the push in its sequence, from 0.
    public let index: Int
    /// The push as the sequence had it.
    public let push: Push
    /// The receipt, or the error.
    public let result: Result<Receipt, APNSError>
}
