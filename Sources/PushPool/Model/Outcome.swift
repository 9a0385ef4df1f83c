public import Platform

/// The outcome of one attempt. Resending "not processed" is safe; resending "maybe processed" may duplicate.
public enum Outcome: Sendable, Equatable {
    /// Status 2xx: APNs has accepted it. The content of its response is present with `PoolSettings.collectsAPNSIDs`, and for a
    /// channel call.
    case delivered(Acceptance?)
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

    /// An acceptance whose response has nothing but an id.
    package static func delivered(apnsID: String?) -> Outcome { .delivered(apnsID.map { Acceptance(apnsID: $0) }) }

    /// Whether APNs may have accepted the request without a response.
    package var isInDoubt: Bool {
        switch self {
        case .timedOut, .maybeProcessed: true
        case .delivered, .rejected, .notProcessed, .outdated, .begun: false
        }
    }
}

/// The outcome of one attempt.
public struct Delivery: Sendable, Equatable {
    public var id: UInt64
    public var session: SessionID
    public var outcome: Outcome
    /// Present with `PoolSettings.recordsTimes`, for a request that was submitted.
    public var times: AttemptTimes?

    public init(id: UInt64, session: SessionID, outcome: Outcome, times: AttemptTimes? = nil) {
        self.id = id
        self.session = session
        self.outcome = outcome
        self.times = times
    }
}

/// The content of APNs' response to a request that it accepted.
public final class Acceptance: Sendable, Equatable {
    /// `apns-id`, or `apns-request-id` of a broadcast.
    public let apnsID: String?
    /// `apns-unique-id`, which only the sandbox sends: Apple's console finds the push in its delivery log by it ("Viewing the
    /// status of push notifications using Metrics and APNs").
    public let uniqueID: String?
    /// `apns-channel-id` of a channel that was created.
    public let channelID: String?
    /// The body of the response to a channel call.
    public let body: [UInt8]

    public init(apnsID: String?, uniqueID: String? = nil, channelID: String? = nil, body: [UInt8] = []) {
        (self.apnsID, self.uniqueID, self.channelID, self.body) = (apnsID, uniqueID, channelID, body)
    }

    public static func == (left: Acceptance, right: Acceptance) -> Bool {
        left.apnsID == right.apnsID && left.uniqueID == right.uniqueID && left.channelID == right.channelID
            && left.body == right.body
    }
}

/// The times at which a request left for the wire and its outcome was known.
public struct AttemptTimes: Sendable, Equatable {
    public var sent: Instant
    public var ended: Instant

    public init(sent: Instant, ended: Instant) { (self.sent, self.ended) = (sent, ended) }
}

/// A response with a status other than 2xx.
public struct Rejection: Sendable, Equatable {
    /// The HTTP status.
    public var status: Int
    /// APNs' `reason`; the first 200 bytes of the body if it is not JSON with a reason; "" if it is empty.
    public var reason: String
    /// `apns-id` of the response.
    public var apnsID: String?
    /// `apns-unique-id` of the response: see `Acceptance`.
    public var uniqueID: String?
    /// Milliseconds since 1970: with 410, the last time at which APNs knew the token to be invalid.
    public var timestamp: Int64?
    /// `retry-after` of the response; for a date, the time until then.
    public var retryAfter: Duration?

    public init(status: Int, reason: String, apnsID: String? = nil, timestamp: Int64? = nil, retryAfter: Duration? = nil) {
        self.status = status
        self.reason = reason
        self.apnsID = apnsID
        self.timestamp = timestamp
        self.retryAfter = retryAfter
    }

    /// Status and reason in one line: `503 ServiceUnavailable`.
    package var text: String { reason.isEmpty ? "\(status)" : "\(status) \(reason)" }
}

/// The reason why a session ended or did not accept a notification.
public indirect enum SessionError: Sendable, Equatable {
    /// DNS, TCP or TLS failed: a text for the log. `isCredential` if TLS rejected our certificate.
    case dial(String, isCredential: Bool)
    /// TLS does not trust the server's chain or name: a text for the log.
    case untrusted(String)
    /// The peer's GOAWAY: the HTTP/2 error code, and its debug data as `reason` (JSON) or text.
    case goAway(code: UInt32, reason: String)
    /// RST_STREAM with this code on one stream.
    case streamReset(code: UInt32)
    /// The connection broke or closed: a text for the log.
    case connectionLost(String)
    /// A PING got no response.
    case pingUnanswered
    /// The pool closed the session to drain, reload or end.
    case closedByUs
    /// The pool closed the session because it was no longer useful.
    case retired(Retirement)

    /// The reason in words.
    package var text: String {
        switch self {
        case .dial(let text, _), .untrusted(let text): text
        case .goAway(let code, let reason):
            reason.isEmpty ? "GOAWAY, code \(code)" : "GOAWAY, code \(code): \(reason)"
        case .streamReset(let code): "stream reset, code \(code)"
        case .connectionLost(let text): text
        case .pingUnanswered: "PING unanswered"
        case .closedByUs: "closed by this process"
        case .retired(.requestIgnored): "a request got no response; replacing the session"
        case .retired(.serverErrors): "three responses of 500 in a row; replacing the session"
        case .retired(.shutdownAnnounced): "the server announced its shutdown in a response; replacing the session"
        case .retired(.noWindow): "the server admits no more bytes; replacing the session"
        case .retired(.sendingEnded): "the time for sending ended while requests waited for the socket; replacing the session"
        case .retired(.usedUp): "its stream identifiers are used up; replacing the session"
        }
    }
}

/// The reason for replacing a session that still worked.
public enum Retirement: Sendable, Equatable {
    /// The server ignored a request although it is alive (jchambers/pushy#773).
    case requestIgnored
    /// Three consecutive responses with status 500: the server's fault may last until it is replaced (docs/design.md,
    /// "Sessions").
    case serverErrors
    /// The session has used up its stream ids.
    case usedUp
    /// The server admits no more bytes although no request is open: no WINDOW_UPDATE came for the time limit of a request.
    case noWindow
    /// A response announced the end, as GOAWAY does: 400 `IdleTimeout`, 503 `Shutdown`.
    case shutdownAnnounced
    /// The time for sending ended (`SessionPool.allowSending`) before its requests were written: they must not leave.
    case sendingEnded
}

/// An event of a pool other than an outcome. Events are rare and never occur per push.
public enum PoolEvent: Sendable, Equatable {
    /// A session is open: TCP, TLS, ALPN h2 and the first SETTINGS are done.
    case opened(SessionID, address: String, streams: Int)
    /// A session has ended for this reason; its attempts were reported before.
    case closed(SessionID, address: String, SessionError)
    /// A dial has failed; the next one starts after `retryIn`. The id tells which credential was used
    /// (`SessionPool.usesPresentCredential`).
    case dialFailed(SessionID, address: String, SessionError, retryIn: Duration)
    /// The capacity changed without another event, by SETTINGS or a draining session.
    case capacityChanged
    /// The pool has changed the number of sessions.
    case resized(from: Int, to: Int)
    /// The peer sent ENHANCE_YOUR_CALM: the pool is limited to half of its rate.
    case slowed(pushesPerSecond: Int)
    /// The limit, which has grown since the last ENHANCE_YOUR_CALM, has ended.
    case slowdownEnded
    /// APNs refuses the new credential, with this response or error: the previous one stays in use, and the new one is tried
    /// again later.
    case credentialRefused(String, retryIn: Duration)
    case tokens(TokenNews)
    /// Windows or streams have limited the pool for some seconds.
    case limited(PoolAdvice)
}

/// One session of the process. Ids count dials over all pools from 1 and are never reused.
public struct SessionID: Sendable, Hashable, Comparable {
    public let number: UInt64
    public init(_ number: UInt64) { self.number = number }
    public static func < (left: Self, right: Self) -> Bool { left.number < right.number }
}

/// A larger pool that would carry more, because windows or streams limit the present one.
public struct PoolAdvice: Sendable, Equatable {
    public var sessions: Int
    public var roundTrip: Duration
    /// The usual payload in bytes.
    public var payload: Int
    public var pushesPerSecond: Int
    /// The suggested number of sessions and its estimate.
    public var suggestion: Int
    public var suggestedPushesPerSecond: Int
    /// Whether the number of sessions varies, so that its maximum is the limit.
    public var isMaximum: Bool
}

/// The measurements of the open sessions of a pool.
public struct PoolFigures: Sendable, Equatable {
    public var sessions = 0
    /// The smoothed round trip of the sessions' PINGs; `nil` before the first one is answered.
    public var roundTrip: Duration?
    /// The shortest round trip of any open session.
    public var shortestRoundTrip: Duration?
    /// Bytes of payload that the peers have not confirmed by WINDOW_UPDATE.
    public var bytesInFlight = 0
    /// The send window of one session, in bytes.
    public var window = 0
    /// The usual payload in bytes; 0 before the first push.
    public var payload = 0
    /// The time for which pushes waited, by `Limitation.rawValue`.
    public var blocked = PoolFigures.unblocked

    /// Shared by the figures of all apps without a pool.
    private static let unblocked = [Duration](repeating: .zero, count: Limitation.allCases.count)

    public init() {}

    public func blocked(by limitation: Limitation) -> Duration { blocked[limitation.rawValue] }

    /// The reach of one session with this many streams; `nil` before the first round trip.
    public func reach(streams: Int) -> Reach? {
        shortestRoundTrip.map { Reach(roundTrip: $0, window: window, streams: streams, payload: payload) }
    }
}

/// The limit that keeps waiting pushes in the queue.
public enum Limitation: Int, Sendable, CaseIterable {
    /// The peer's or our own limit on open streams.
    case streams
    /// The send windows of the connections (RFC 9113, 5.2).
    case window
    /// TLS or TCP takes no more bytes.
    case socket
    case rateLimit
}

/// The pushes per second that one session carries at a distance.
///
/// A server opens a window again when half of it is used up, so that half of the window is sent in each round trip; a stream
/// is open for at least one round trip.
public struct Reach: Sendable, Equatable {
    /// The window of a connection in bytes until the server enlarges it (RFC 9113, 6.9.2).
    public static let usualWindow = 65_535

    public let pushesPerSecond: Double

    /// - Parameter payload: in bytes.
    public init(roundTrip: Duration, window: Int, streams: Int, payload: Int) {
        let seconds = max(roundTrip / .seconds(1), 0.000_01)
        let pushes = min(Double(max(1, window)) / 2 / Double(max(1, payload)), Double(max(1, streams)))
        pushesPerSecond = pushes / seconds
    }

    /// Returns the number of sessions that carry this many pushes per second, at least 1 and at most `most`.
    public func sessions(for rate: Double, atMost most: Int) -> Int {
        let needed = (rate / pushesPerSecond).rounded(.up)
        return needed >= Double(most) ? most : max(1, Int(needed))
    }
}
