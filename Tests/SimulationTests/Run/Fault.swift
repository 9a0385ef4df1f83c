/// A kind of fault, or of another event that a run injects at random times.
enum Fault: Int, CaseIterable {
    /// SIGKILL of a worker; another one starts later.
    case crash
    /// SIGSTOP for up to two leases.
    case freeze
    /// SIGTERM; another worker starts when it has stopped, or before.
    case stop
    case reload
    case redisCut
    case redisHalfOpen
    case redisReplyLost
    case redisStall
    case redisRestart
    /// FLUSHALL.
    case redisFlush
    /// Redis returns to its state of some seconds ago.
    case redisRollback
    case redisClock
    case scriptFlush
    case pause
    case pushCut
    case pushSilent
    case pushStall
    case goAway
    case goAwayAndCut
    case fewerStreams
    case unreachable
    case overload
    case credential
    case expiredToken

    /// Whether Redis loses data.
    var makesForgetful: Bool { self == .redisFlush || self == .redisRollback }
}
