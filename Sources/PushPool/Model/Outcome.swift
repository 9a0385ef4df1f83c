/// The outcome of one attempt. Resending "not processed" is safe; resending "maybe processed" may duplicate.
public enum Outcome: Sendable, Equatable {
    /// Status 2xx: APNs has accepted it. The id is present only with `PoolSettings.collectsAPNSIDs`.
    case delivered(apnsID: String?)
    /// APNs responded with another status. Indirect, like the errors, because most outcomes are `delivered` and each is moved
    /// many times.
    indirect case rejected(Rejection)
    /// APNs certainly did not process it: it was never written, refused, or above GOAWAY's last stream id (RFC 9113, 6.8,
    /// 8.7).
    case notProcessed(SessionError)
    /// It was or may have been written, and no response will arrive: a resend may be a duplicate.
    case maybeProcessed(SessionError)
    /// No response within the request timeout, on a live session (its PING was answered).
    case timedOut
    /// Its deadline had passed when a session took it: it was not sent.
    case outdated
    /// Not an end: it is being sent with this deadline, which is later than before (`Notification.lifetime`).
    case begun(expiration: Int64)

    /// Whether APNs may have accepted the request without a response.
    package var isInDoubt: Bool {
        switch self {
        case .timedOut, .maybeProcessed: true
        case .delivered, .rejected, .notProcessed, .outdated, .begun: false
        }
    }
}
