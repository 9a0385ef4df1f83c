/// A command that the queue sends to Redis.
enum Call: Equatable {
    /// The reply is a status, or that of ROLE with `master`. Otherwise the connection cannot be used.
    case greeting(Login.Step)
    case register(Registration)
    /// `jobs` follows it on the same connection, in the same write.
    case claim(Claim)
    /// The list of a chunk that was just claimed.
    case jobs(of: Claim)
    case pop(PopQueue.Call)
    /// Indirect, because the batch is large, and a call is moved several times.
    indirect case settle(SettleBatch)
    case beat(Beat)
    case promote
    case reap(Reap)
    indirect case adopt(Adoption)
    case restore(Restore)
    case info
    /// The nodes of a Redis Cluster.
    case nodes
    case fetch(Fetch)
    case unregister
    /// The number of existing keys among the list and the chunk of the claim behind the wait. It shows whether Redis responds,
    /// and which jobs the second connection may have missed.
    case inspect(chunk: UInt64?)
    /// On the second connection: wait for a job.
    case wait

    /// Whether the reply may be a `Lua.Status` instead of a result. A job with the text `FENCED` is only a job.
    var isFenced: Bool {
        switch self {
        case .claim, .settle, .beat, .reap, .adopt, .restore, .unregister: true
        case .greeting, .register, .jobs, .pop, .promote, .info, .nodes, .fetch, .inspect, .wait: false
        }
    }

    /// Whether the second connection carries it.
    var isOnSecond: Bool {
        switch self {
        case .wait: true
        case .claim(let claim), .jobs(let claim): claim.isPiggybacked
        default: false
        }
    }
}
