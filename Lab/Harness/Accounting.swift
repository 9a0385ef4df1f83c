/// The accounting at the end of a run: the queued jobs against their outcomes.
public struct Accounting: Sendable, CustomStringConvertible {
    public var queued: Int
    /// Tokens that were accepted at least once.
    public var delivered: Int
    /// Acceptances beyond the first of a token.
    public var extra: Int
    public var dead: Int
    /// Tokens that were accepted or dead-lettered without a queued job.
    public var unexpected: Int
    /// Queued tokens that were neither accepted nor dead-lettered.
    public var lost: Int

    /// - Parameters:
    ///   - queued: the tokens of the jobs that Redis acknowledged, one job each.
    ///   - maybe: the tokens of jobs that Redis may have; those with an outcome count as queued.
    ///   - dead: the tokens of the dead letters.
    public init(queued: Set<String>, maybe: Set<String> = [], ledger: Ledger, dead: [String]) {
        let accepted = ledger.accepted
        let queued = queued.union(maybe.intersection(Set(accepted.keys).union(dead)))
        self.queued = queued.count
        delivered = accepted.count
        extra = accepted.values.reduce(0) { $0 + $1 - 1 }
        self.dead = dead.count
        unexpected = Set(accepted.keys).union(dead).subtracting(queued).count
        lost = queued.subtracting(accepted.keys).subtracting(dead).count
    }

    /// Adds jobs that share the token of another job: extra deliveries belong to them first.
    public mutating func addIdentical(_ jobs: Int) {
        let found = min(extra, jobs)
        queued += jobs
        delivered += found
        extra -= found
        lost += jobs - found
    }

    /// Adds the accounting of another run with other tokens.
    public static func += (sum: inout Accounting, other: Accounting) {
        sum.queued += other.queued
        sum.delivered += other.delivered
        sum.extra += other.extra
        sum.dead += other.dead
        sum.unexpected += other.unexpected
        sum.lost += other.lost
    }

    public var description: String {
        "queued \(queued) = delivered \(delivered) + dead letters \(dead), lost \(lost), unexpected \(unexpected), "
            + "duplicates \(extra)"
    }
}
