internal import Sockets
internal import Synchronization
internal import Threads

/// What a pool's own thread is told, by its sessions and by the pool's owner.
enum PoolMessage: Sendable {
    case opened(SessionID, address: String, streams: Int)
    /// It takes no more; `hasServed`: at least one answer below 500 came over it.
    case retired(SessionID, hasServed: Bool)
    case capacityChanged
    /// The peer said ENHANCE_YOUR_CALM, for the first time on this session: pushes become fewer, and dials must wait, whatever it
    /// has served.
    case mustSlowDown(SessionID)
    case tokens(TokenNews)
    /// Its thread is about to end. Everything was reported, so many as perhaps processed because it broke.
    case ended(SessionID, address: String, SessionError, hasServed: Bool, unanswered: Int)
    case dialFailed(SessionID, address: String, SessionError)
    /// A dial was given up because we wanted it so.
    case dialAbandoned(SessionID)

    case reconnect
    case replace(PoolConfiguration)
    case close
}
