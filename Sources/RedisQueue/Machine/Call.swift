/// What the queue says to Redis.
enum Call: Equatable {
    /// Answered with a status, or by ROLE with `master`, or the connection is no good.
    case greeting(Greeting)
    case register(Registration)
    case claim(first: ClaimID, count: Int, fromSecond: Int)
    /// The same, on the second connection, to be run when the wait before it ends; nothing if this worker has given jobs back in a
    /// later settlement than `after`.
    case ride(first: ClaimID, count: Int, fromSecond: Int, after: UInt64)
    /// `at_most_once`: jobs leave Redis with this.
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
    /// How much the list holds: whether Redis is still there, and what the second connection may have missed.
    case look
    /// How many jobs stand in the in-flight hash: what the second connection may have claimed and not brought.
    case countHeld
    /// On the second connection: wait for a job.
    case wait

    /// Whether the answer may be a word about the worker instead of a result. A job that reads `FENCED` is only a job.
    var isFenced: Bool {
        switch self {
        case .claim, .ride, .settle, .beat, .reap, .adopt, .unregister: true
        case .greeting, .register, .pop, .promote, .merge, .info, .nodes, .fields, .fetch, .look, .countHeld, .wait: false
        }
    }

    /// Whether the second connection carries it.
    var isOnSecond: Bool {
        switch self {
        case .wait, .ride: true
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
