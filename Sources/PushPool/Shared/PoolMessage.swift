internal import Platform
internal import Synchronization

/// A message to the pool's own thread, from its sessions or its owner.
enum PoolMessage: Sendable {
    case opened(SessionID, address: String, streams: Int)
    /// The session accepts no more work. `hasServed`: at least one of its responses had a status below 500.
    case retired(SessionID, hasServed: Bool)
    case capacityChanged
    /// The session received its first ENHANCE_YOUR_CALM: the pool lowers its rate and delays its dials.
    case mustSlowDown(SessionID)
    case tokens(TokenNews)
    /// APNs has accepted a push with the credential of the session, or only rejected a device token; or it has refused the
    /// credential with this response.
    case proved(SessionID, isAcceptance: Bool)
    case refused(SessionID, String)
    /// The session's thread is about to end. All attempts are reported, `unanswered` of them as maybe processed.
    case ended(SessionID, address: String, SessionError, hasServed: Bool, unanswered: Int)
    case dialFailed(SessionID, address: String, SessionError)
    /// A dial ended because the pool ordered it.
    case dialAbandoned(SessionID)

    case reconnect
    case retire(SessionID)
    case replace(PoolConfiguration)
    case close
}
