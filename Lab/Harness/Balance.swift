/// The books at the end of a run: what was queued against what became of it.
public struct Balance: Sendable, CustomStringConvertible {
    public var queued: Int
    /// Tokens accepted at least once.
    public var delivered: Int
    /// Acceptances beyond the first of a token.
    public var extra: Int
    public var dead: Int
    /// Accepted, or dead, though nobody queued it.
    public var unexpected: Int
    /// Queued, and neither accepted nor dead.
    public var lost: Int

    /// - Parameters:
    ///   - queued: the tokens whose jobs Redis acknowledged, one job each.
    ///   - maybe: the tokens of jobs that Redis may have or not; those found count as queued.
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

    /// So many of the jobs had the token of another: what was delivered again is theirs first.
    public mutating func countAlike(_ jobs: Int) {
        let found = min(extra, jobs)
        queued += jobs
        delivered += found
        extra -= found
        lost += jobs - found
    }

    /// Adds the books of another run, whose tokens are its own.
    public static func += (books: inout Balance, other: Balance) {
        books.queued += other.queued
        books.delivered += other.delivered
        books.extra += other.extra
        books.dead += other.dead
        books.unexpected += other.unexpected
        books.lost += other.lost
    }

    public var description: String {
        "queued \(queued) = delivered \(delivered) + dead letters \(dead), lost \(lost), unexpected \(unexpected), "
            + "delivered again \(extra)"
    }
}
