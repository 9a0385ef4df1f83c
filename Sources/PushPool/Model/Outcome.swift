/// What became of one attempt. Between "not processed" and "maybe processed" lies a duplicate or none.
public enum Outcome: Sendable, Equatable {
    /// 200: APNs has it. The id only where the pool was asked to collect ids (`PoolSettings.collectsAPNSIDs`).
    case delivered(apnsID: String?)
    /// APNs answered with another status. Indirect, as faults are: most outcomes are `delivered`, and each is handed on many times.
    indirect case rejected(Rejection)
    /// APNs certainly did nothing with it: never written, refused, or above GOAWAY's last stream id (RFC 9113, 6.8, 8.7).
    case notProcessed(SessionError)
    /// It was written, or may have been, and no answer will come: sending again may send twice.
    case maybeProcessed(SessionError)
    /// No answer within the request timeout, on a session that lives (its PING was answered).
    case timedOut
    /// Its deadline had passed when a session came to take it: it was not sent.
    case outdated
    /// No end yet: it is sent with this deadline, later than the one it was handed over with (`Notification.lifetime`).
    case begun(expiration: Int64)
}
