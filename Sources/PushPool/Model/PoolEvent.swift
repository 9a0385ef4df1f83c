/// What a pool tells its owner beside deliveries: few, and for the log and the gate, never per push.
public enum PoolEvent: Sendable, Equatable {
    /// A session is up: TCP, TLS, ALPN h2 and the first SETTINGS.
    case opened(SessionID, address: String, streams: Int)
    /// A session is gone, with why; its attempts are reported before this.
    case closed(SessionID, address: String, SessionError)
    /// No session came of a dial; the next one follows after `retryIn`. The id that the session would have had tells which
    /// credential was shown (`SessionPool.usesPresentCredential`).
    case dialFailed(SessionID, address: String, SessionError, retryIn: Duration)
    /// The capacity changed without another event: SETTINGS, or a session that drains.
    case capacityChanged
    /// The governor wants another number of sessions from now on.
    case resized(from: Int, to: Int)
    /// The peer said ENHANCE_YOUR_CALM: no more pushes a second than these from now on, half of what there were.
    case braked(pushesPerSecond: Int)
    /// It has not said so again for long enough: that limit, which has grown meanwhile, is gone.
    case brakeLifted
    case tokens(TokenNews)
}
