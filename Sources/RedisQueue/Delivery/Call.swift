/// A command that the queue sends to Redis.
enum Call: Equatable {
    /// The reply is a status, or that of ROLE with `master`. Otherwise the connection cannot be used.
    case greeting(Greeting)
    case register(Registration)
    /// `jobs` follows it on the same connection, in the same write.
    case claim(Claim)
    /// The list of a chunk that was just claimed.
    case jobs(of: Claim)
    /// `at_most_once`: the jobs leave Redis.
    case pop(count: Int)
    /// Indirect, because the batch is large, and a call is moved several times.
    indirect case settle(SettleBatch)
    /// `settled` is the last settlement that Redis has confirmed, `chunk` the newest chunk: Redis lacks them if it was put back
    /// to an earlier state.
    case beat(counter: Int64, settled: UInt64, chunk: UInt64? = nil)
    case promote
    /// Suspects go to this chunk. The reply asks for the call with the chunks of the dead worker if it has other ones.
    case reap(LeaseMachine.Dead, chunk: UInt64, lists: [String] = [])
    indirect case adopt(Adopted)
    case merge
    /// `at_most_once`: jobs of the side list of this app leave Redis.
    case take(app: String, count: Int)
    /// Jobs of the side list of this app return to Q. At a stop only the last worker does this.
    case restore(app: String, isStop: Bool)
    case info
    /// The nodes of a Redis Cluster.
    case nodes
    /// The jobs at these positions of a chunk.
    case fetch(chunk: UInt64, [Int])
    case unregister
    /// The number of existing keys among the list and the chunk of the claim behind the wait. It shows whether Redis responds,
    /// and which jobs the second connection may have missed.
    case inspect(chunk: UInt64?)
    /// On the second connection: wait for a job.
    case wait

    /// Whether the reply may be a status of the worker instead of a result. A job with the text `FENCED` is only a job.
    var isFenced: Bool {
        switch self {
        case .claim, .settle, .beat, .reap, .adopt, .restore, .unregister: true
        case .greeting, .register, .jobs, .pop, .promote, .merge, .take, .info, .nodes, .fetch, .inspect, .wait: false
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

    struct Claim: Equatable {
        /// The number of the new chunk. The next number is for a job that is too large.
        var chunk: UInt64
        var count: Int
        /// Most jobs that were in flight at two crashes.
        var fromSecond: Int
        var mostBytes = ClaimSize.firstBytes
        /// The claim is sent behind the wait on the second connection, and runs when the wait ends. It takes nothing if this
        /// worker has given jobs back in a settlement later than this one.
        var after: UInt64?
        /// The app from whose side list it takes jobs; `nil` for the list.
        var aside: String?

        var isPiggybacked: Bool { after != nil }
    }

    /// Held jobs of one chunk that Redis lacks.
    struct Adopted: Equatable {
        struct Job: Equatable {
            var place: Int
            var bytes: [UInt8]
            /// The number of bytes of a job of which only the beginning is held.
            var fullSize: Int?
        }

        var chunk: UInt64
        var level: UInt8
        /// The number of positions of the chunk.
        var positions: Int
        var jobs: [Job]
    }

    struct Registration: Equatable {
        var counter: Int64
        var confirmed: UInt64
        var isExpected: Bool
        /// The last settlement that has a number.
        var sealed: UInt64 = 0
        /// The number of the last registration whose reply was read.
        var answered: Int64 = 0
    }
}
