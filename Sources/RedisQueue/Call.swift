/// What the queue says to Redis.
enum Call: Equatable {
    /// Answered with a status, or by ROLE with `master`, or the connection is no good.
    case greeting(Greeting)
    case register(Registration)
    case claim(first: UInt64, count: Int, fromSecond: Int)
    /// `at_most_once`: jobs leave Redis with this.
    case pop(count: Int)
    case settle(SettleBatch)
    case beat(counter: Int64)
    case promote
    case reap(LeaseMachine.Dead, first: UInt64)
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
    /// On the second connection: wait for a job.
    case wait

    /// Whether the answer may be a word about the worker instead of a result. A job that reads `FENCED` is only a job.
    var isFenced: Bool {
        switch self {
        case .claim, .settle, .beat, .reap, .adopt, .unregister: true
        case .greeting, .register, .pop, .promote, .merge, .info, .nodes, .fields, .fetch, .look, .wait: false
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
