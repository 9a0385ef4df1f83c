import RedisQueue

/// The daemon's counters since its start, for SIGUSR1 and metrics. The counters that survive restarts are in Redis.
struct Counters: Sendable, Equatable, CustomStringConvertible {
    var claimed = 0
    var sent = 0
    var retried = 0
    var resent = 0
    var dead = 0
    var expired = 0
    var released = 0
    var postponed = 0

    /// In the order of the log and of the metrics.
    var all: [(counter: Counter, count: Int)] {
        [
            (.claimed, claimed), (.sent, sent), (.retried, retried), (.resent, resent), (.dead, dead), (.expired, expired),
            (.released, released), (.postponed, postponed),
        ]
    }

    var description: String { all.map { "\($0.counter.rawValue) \($0.count)" }.joined(separator: ", ") }
}
