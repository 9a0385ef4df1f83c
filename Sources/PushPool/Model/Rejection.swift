/// A response with a status other than 2xx.
public struct Rejection: Sendable, Equatable {
    /// The HTTP status.
    public var status: Int
    /// APNs' `reason`; the first 200 bytes of the body if it is not JSON with a reason; "" if it is empty.
    public var reason: String
    /// `apns-id` of the response.
    public var apnsID: String?
    /// Milliseconds since 1970: with 410, the last time at which APNs knew the token to be invalid.
    public var timestamp: Int64?
    /// `retry-after` of the response; for a date, the time until then.
    public var retryAfter: Duration?

    public init(
        status: Int, reason: String, apnsID: String? = nil, timestamp: Int64? = nil, retryAfter: Duration? = nil
    ) {
        self.status = status
        self.reason = reason
        self.apnsID = apnsID
        self.timestamp = timestamp
        self.retryAfter = retryAfter
    }

    /// Status and reason in one line: `503 ServiceUnavailable`.
    package var text: String { reason.isEmpty ? "\(status)" : "\(status) \(reason)" }
}
