/// The comparison, after each connect, of the jobs that Redis keeps for this worker with those that the worker holds.
struct Reconciliation {
    enum Finding: Equatable {
        case unchanged
        /// Redis was emptied, is another one, or returned to a state before its first worker: it has none of the claims.
        case emptied
        /// Redis returned to a state in which `stored` was the last settlement.
        case rolledBack(stored: UInt64)
    }

    /// Whether this worker has been registered before.
    private(set) var isRegistered = false
    private(set) var isCluster = false
    private(set) var wantsInfo = true
    /// Whether the owner does not know yet which apps the daemons of the list have had.
    private(set) var wantsApps: Bool
    /// The epoch of the data set that has all held jobs, and that of the data set that is compared.
    private var epoch: String?
    private var newEpoch: String?
    private var missingReplies = 0
    /// The last registration whose reply was read.
    private(set) var answered: Int64 = 0
    private var warnings: [String] = []
    /// The warning about lost data. The first one counts: a second registration finds only what the first has not put back.
    private var cause: String?
    /// The numbers of records at the registration.
    private var lengths: [RecordList: Int] = [:]

    init(wantsApps: Bool = false) { self.wantsApps = wantsApps }

    var isComplete: Bool { missingReplies == 0 }

    mutating func learnedApps() { wantsApps = false }

    mutating func connectionLost() { missingReplies = 0 }

    mutating func registered(_ reply: Registration.Registered, number: Int64, confirmed: UInt64) -> Finding {
        defer { (newEpoch, lengths, isRegistered, answered) = (reply.epoch, reply.lengths, true, number) }
        // Without a number, the state is older than this worker.
        return finding(reply.epoch, settled: reply.settled ?? 0, confirmed: confirmed)
    }

    /// - Parameter settled: the last settlement that the record of this worker has; `nil`: nothing is concluded from it.
    func finding(_ newEpoch: String, settled: UInt64?, confirmed: UInt64) -> Finding {
        if let epoch, epoch != newEpoch { return .emptied }
        if isRegistered, let settled, settled < confirmed { return .rolledBack(stored: settled) }
        return .unchanged
    }

    /// The worker has a new name, and so a new record.
    mutating func renamed() { isRegistered = false }

    /// - Parameter count: the number of held jobs that Redis lacks.
    mutating func warn(of finding: Finding, putBack count: Int) {
        if cause == nil { cause = Reconciliation.warning(finding, putBack: count) }
    }

    private static func warning(_ finding: Finding, putBack count: Int) -> String? {
        let jobs = "\(count) job\(count == 1 ? "" : "s") that this worker holds \(count == 1 ? "was" : "were") put back"
        switch finding {
        case .emptied: return "Redis was emptied" + (count > 0 ? ": \(jobs)" : "")
        case .unchanged: return count > 0 ? "Redis was put back to an earlier state: \(jobs)" : nil
        case .rolledBack:
            let again = "the jobs that it has again are pushed again"
            return "Redis was put back to an earlier state: \(count > 0 ? "\(jobs), and \(again)" : again)"
        }
    }

    mutating func expectReply() { missingReplies += 1 }
    mutating func replied() { missingReplies -= 1 }

    mutating func redirected() { isCluster = true }

    /// - Returns: whether the server is found to be a node of a cluster with this reply.
    mutating func informed(_ info: ServerInfo) -> Bool {
        wantsInfo = false
        warnings += info.warnings
        defer { isCluster = isCluster || info.isCluster }
        return info.isCluster && !isCluster
    }

    /// Everything agrees. Before this the epoch stays the old one: had the connection broken, the held jobs would have to be put
    /// back again.
    mutating func finish() -> (warnings: [String], lengths: [RecordList: Int]) {
        epoch = newEpoch
        defer { (warnings, cause) = ([], nil) }
        return ((cause.map { [$0] } ?? []) + warnings, lengths)
    }
}

/// The product of a server, and its settings that can lose jobs, read from INFO.
public struct ServerInfo {
    /// The fields of INFO that only one product has, with its name. The others imitate the field of Redis.
    private static let products: [(field: Substring, name: String)] = [
        ("valkey_version", "Valkey"), ("dragonfly_version", "Dragonfly"), ("kvrocks_version", "Kvrocks"),
        ("garnet_version", "Garnet"), ("redis_version", "Redis"),
    ]
    /// The most characters of a version.
    private static let longestVersion = 32

    private let values: [Substring: Substring]

    /// - Parameter text: the reply to INFO: `name:value` lines, and titles that begin with `#`.
    init(_ text: String) {
        var values: [Substring: Substring] = [:]
        for line in text.split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            if parts.count == 2 { values[parts[0]] = parts[1] }
        }
        self.values = values
    }

    /// The name and the version, such as `Valkey 8.1.1`.
    public var product: String? {
        for (field, name) in Self.products {
            if let version = values[field] { return "\(name) \(version.prefix(Self.longestVersion))" }
        }
        return nil
    }

    /// The number that the server process has given itself at its start.
    var runID: String? { values["run_id"].map(String.init) }

    /// Whether it is a node of a Redis Cluster.
    var isCluster: Bool { values["cluster_enabled"] == "1" }

    /// Sentences for the operator.
    var warnings: [String] {
        var warnings: [String] = []
        if values["aof_enabled"] == "0", values["connected_slaves"] == "0" {
            warnings.append("Redis has neither an append-only file nor a replica: if it dies, jobs are lost (set appendonly yes)")
        }
        if let policy = values["maxmemory_policy"], policy.hasPrefix("allkeys"), values["maxmemory"] != "0" {
            warnings.append(
                "Redis evicts any key when its memory is full (maxmemory-policy \(policy)): the list itself may be evicted")
        }
        return warnings
    }
}
