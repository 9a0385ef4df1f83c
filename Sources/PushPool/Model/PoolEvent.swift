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
    /// The governor has changed the number of sessions.
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
