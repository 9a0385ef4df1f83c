/// A command that the queue sends to Redis.
enum Call: Equatable {
    /// The reply is a status, or that of ROLE with `master`. Otherwise the connection cannot be used.
    case greeting(Greeting)
    case register(Registration)
    case claim(first: ClaimID, count: Int, fromSecond: Int, mostBytes: Int = ClaimSize.mostBytes)
    /// A claim on the second connection, to be run when the wait before it ends. It claims nothing if this worker has given jobs
    /// back in a settlement later than `after`.
    case piggybackedClaim(first: ClaimID, count: Int, fromSecond: Int, mostBytes: Int = ClaimSize.mostBytes, after: UInt64)
    /// `at_most_once`: the jobs leave Redis.
    case pop(count: Int)
    case settle(SettleBatch)
    case beat(counter: Int64)
    case promote
    case reap(LeaseMachine.Dead, first: ClaimID)
    case adopt([Adopted])
    case merge
    case info
    /// The nodes of a Redis Cluster.
    case nodes
    /// The fields of the in-flight hash.
    case fields
    /// The jobs under these fields.
    case fetch([String])
    case unregister
    /// The length of the list: shows whether Redis responds, and which jobs the second connection may have missed.
    case inspect
    /// The number of jobs in the in-flight hash: shows whether the second connection has claimed jobs that did not arrive.
    case countHeld
    /// On the second connection: wait for a job.
    case wait

    /// Whether the reply may be a status of the worker instead of a result. A job with the text `FENCED` is only a job.
    var isFenced: Bool {
        switch self {
        case .claim, .piggybackedClaim, .settle, .beat, .reap, .adopt, .unregister: true
        case .greeting, .register, .pop, .promote, .merge, .info, .nodes, .fields, .fetch, .inspect, .countHeld, .wait: false
        }
    }

    /// Whether the second connection carries it.
    var isOnSecond: Bool {
        switch self {
        case .wait, .piggybackedClaim: true
        default: false
        }
    }

    enum Greeting: Equatable {
        /// AUTH.
        case password
        /// SELECT, PING.
        case plain
        /// ROLE.
        case role

        /// The error that the reply is. That of AUTH keeps only its code.
        func error(in reply: RedisReply) -> RedisError? {
            guard case .error(let error) = reply else { return nil }
            return self == .password ? .authenticationRefused(by: error) : .reply(error)
        }
    }

    struct Adopted: Equatable {
        var field: String
        var job: [UInt8]
    }

    struct Registration: Equatable {
        var counter: Int64
        var confirmed: UInt64
        var isExpected: Bool
    }
}
