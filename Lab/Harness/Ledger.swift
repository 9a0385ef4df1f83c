import Platform

/// The requests of a simulator, read from its ledger file.
///
/// Each line is `status token apns-id bodyhash`, in the order of the decisions.
public struct Ledger: Sendable {
    public struct Entry: Sendable, Equatable {
        /// The HTTP status of the response, also if the response was lost.
        public var status: Int
        public var token: String
    }

    public private(set) var entries: [Entry] = []

    public init(_ text: String) {
        // The last line may be incomplete.
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            let fields = line.split(separator: " ")
            guard fields.count >= 2, let status = Int(fields[0]) else { continue }
            entries.append(Entry(status: status, token: String(fields[1])))
        }
    }

    /// The number of times that each token was accepted.
    public var accepted: [String: Int] {
        entries.reduce(into: [:]) { counts, entry in
            if entry.status == 200 { counts[entry.token, default: 0] += 1 }
        }
    }

    /// The statuses of all requests of each token, in their order.
    public var statuses: [String: [Int]] { entries.reduce(into: [:]) { $0[$1.token, default: []].append($1.status) } }
}

/// Reads a growing ledger file, each line once.
public struct LedgerTail {
    private let path: String
    private var offset = 0
    /// The number of times that the simulator accepted each token so far.
    public private(set) var accepted: [String: Int] = [:]
    /// The number of lines so far.
    public private(set) var count = 0

    public init(_ path: String) { self.path = path }

    /// Reads the new lines, and returns whether there were any.
    @discardableResult
    public mutating func read() -> Bool {
        let bytes = File.bytes(of: path, from: offset)
        // The last line may be incomplete.
        guard let end = bytes.lastIndex(of: UInt8(ascii: "\n")) else { return false }
        offset += end + 1
        let entries = Ledger(String(decoding: bytes[...end], as: UTF8.self)).entries
        count += entries.count
        for entry in entries where entry.status == 200 { accepted[entry.token, default: 0] += 1 }
        return true
    }

    /// Reads until no line came for a while: the ledger is at most 100 ms behind the responses.
    public mutating func readUntilSilent(for silence: Duration = .milliseconds(300), atMost limit: Duration = .seconds(30)) {
        var last = Instant.now
        _ = waitUntil(atMost: limit, every: .milliseconds(10)) {
            if read() { last = .now }
            return .now - last >= silence
        }
        read()
    }
}

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
