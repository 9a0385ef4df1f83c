/// A feature that a server lacks, and for which the queue has a slower substitute.
public enum MissingFeature: Sendable, Hashable, CustomStringConvertible {
    /// No BLMOVE, which Redis 6.2 added.
    case blockingMove
    case waitRefused(ErrorReply)
    /// LPOP takes no count, which Redis 6.2 added.
    case popCount
    /// SORT or MEMORY USAGE is refused.
    case copying

    public var description: String {
        switch self {
        case .blockingMove: "it has no BLMOVE (added in Redis 6.2): the list is polled every 5 to 50 ms instead"
        case .waitRefused(let reply): "waiting for jobs is refused: the list is polled every 50 ms instead (\(reply))"
        case .copying: "SORT or MEMORY USAGE is refused: a script copies the jobs instead, which takes more time of Redis"
        case .popCount: "LPOP takes one job at a time (Redis 6.2 added a count)"
        }
    }
}
