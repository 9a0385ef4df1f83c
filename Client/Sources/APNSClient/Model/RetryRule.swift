/// Decides whether a failed push is sent again before its caller gets the error.
public struct RetryRule: Sendable {
    /// The next step for a push whose request failed.
    public enum Decision: Sendable, Equatable {
        /// The caller gets the error.
        case giveUp
        /// Send again after this time, on another session if there is one.
        case resend(after: Duration)
    }

    /// A failed request.
    public struct Failure: Sendable, Equatable {
        /// The push that failed.
        public let push: Push
        /// The error that the caller would get now.
        public let error: APNSError
        /// The decision of the standard rule, with its limits and delays.
        public let standard: Decision
    }

    /// The number of counted resends: after 408, 429, 5xx, and a request without a response.
    public var limit: Int
    /// The wait before each resend, with 20 % of jitter; the last one repeats. A Retry-After of APNs takes precedence.
    public var delays: [Duration]
    /// Whether to send again what may have been sent, which may cause a duplicate.
    public var resendsMaybeSent: Bool
    /// Replaces the decision of the standard rule. Called on a thread of the client, which waits for it.
    ///
    /// It is not asked about faults of the credential: see ``APNSError/Cause/held``.
    public var judge: (@Sendable (Failure) -> Decision)?

    /// A rule with limits, and optionally a judgement of your own.
    public init(
        limit: Int = 3, delays: [Duration] = [.seconds(1), .seconds(5), .seconds(20)], resendsMaybeSent: Bool = true,
        judge: (@Sendable (Failure) -> Decision)? = nil
    ) {
        self.limit = limit
        self.delays = delays
        self.resendsMaybeSent = resendsMaybeSent
        self.judge = judge
    }

    /// Every push is requested once. Only requests that APNs has certainly not processed are made again.
    public static let never = RetryRule(limit: 0, resendsMaybeSent: false)
}
