/// An answer other than 200.
public struct Rejection: Sendable, Equatable {
    /// The HTTP status.
    public var status: Int
    /// APNs' `reason`, or the body as text where it is no JSON with one (its first 200 bytes), or "".
    public var reason: String
    /// `apns-id` of the answer.
    public var apnsID: String?
    /// Milliseconds since 1970: with 410, when APNs last knew the token to be invalid.
    public var timestamp: Int64?
    /// `retry-after`, seconds, where the server sent one; of a date the seconds until then.
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
}
