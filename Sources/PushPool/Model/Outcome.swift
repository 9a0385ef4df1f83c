/// What became of one attempt. Between "not processed" and "maybe processed" lies a duplicate or none.
public enum Outcome: Sendable, Equatable {
    /// 200: APNs has it. The id only where the pool was asked to collect ids (`PoolSettings.collectsAPNSIDs`).
    case delivered(apnsID: String?)
    /// APNs answered with another status. Indirect, as faults are: most outcomes are `delivered`, and each is handed on many times.
    indirect case rejected(Rejection)
    /// APNs certainly did nothing with it: never written, refused, or above GOAWAY's last stream id (RFC 9113, 6.8, 8.7).
    case notProcessed(SessionFault)
    /// It was written, or may have been, and no answer will come: sending again may send twice.
    case maybeProcessed(SessionFault)
    /// No answer within the request timeout, on a session that lives (its PING was answered).
    case timedOut
    /// Its deadline had passed when a session came to take it: it was not sent.
    case outdated
    /// No end yet: it is sent with this deadline, later than the one it was handed over with (`Notification.lifetime`).
    case begun(expiration: Int64)
}

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

/// Why a session ended, or did not take a notification.
public indirect enum SessionFault: Sendable, Equatable {
    /// DNS, TCP or TLS: text for the log. `isCredential` when TLS blames our certificate.
    case dial(String, isCredential: Bool)
    /// TLS does not trust the server's chain, or its name is another: text for the log.
    case untrusted(String)
    /// The peer's GOAWAY: HTTP/2 error code, and its debug data as `reason` (JSON) or text.
    case goAway(code: UInt32, reason: String)
    /// RST_STREAM with this code on one stream.
    case streamReset(code: UInt32)
    /// The connection broke or closed: text for the log.
    case connectionLost(String)
    /// A PING went unanswered.
    case pingUnanswered
    /// The pool closed the session itself: drain, reload, end.
    case closedByUs
    /// The session was of no more use, and the pool closed it.
    case retired(Retirement)
}

/// Why a session that still worked was replaced by another.
public enum Retirement: Sendable, Equatable {
    /// The server ignored a request, though it lives (jchambers/pushy#773).
    case requestIgnored
    /// Three answers of 500 in a row: a server that has lost its way is left until it is replaced (docs/design.md, "Sessions").
    case serverErrors
    /// It has had as many requests as HTTP/2 has stream identifiers.
    case usedUp
    /// An answer said so, as GOAWAY would: 400 `IdleTimeout`, 503 `Shutdown`.
    case farewell
}

/// One attempt's end.
public struct Delivery: Sendable, Equatable {
    public var id: UInt64
    public var session: SessionID
    public var outcome: Outcome

    public init(id: UInt64, session: SessionID, outcome: Outcome) {
        self.id = id
        self.session = session
        self.outcome = outcome
    }
}
