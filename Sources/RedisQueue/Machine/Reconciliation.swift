/// The comparison, after each connect, of the jobs that Redis keeps for this worker with those that the worker holds.
struct Reconciliation {
    enum Finding: Equatable {
        case unchanged
        /// Redis was emptied, or is another one: it has none of the held jobs.
        case emptied
        /// Redis returned to a state in which `stored` was the last settlement.
        case rolledBack(stored: UInt64)
    }

    /// Whether this worker has been registered before.
    private(set) var isRegistered = false
    private(set) var isCluster = false
    private(set) var wantsInfo = true
    /// The epoch of the data set that has all held jobs, and that of the data set that is compared.
    private var epoch: String?
    private var newEpoch: String?
    private var missingReplies = 0
    private var warnings: [String] = []
    /// The numbers of records at the registration.
    private var lengths: [RecordList: Int] = [:]

    var isComplete: Bool { missingReplies == 0 }

    mutating func connectionLost() { missingReplies = 0 }

    mutating func registered(_ reply: ScriptReply.Registered, confirmed: UInt64) -> Finding {
        defer { (newEpoch, lengths, isRegistered) = (reply.epoch, reply.lengths, true) }
        if let epoch, epoch != reply.epoch { return .emptied }
        // Without a number, the state is older than this worker.
        let stored = reply.settled ?? 0
        if isRegistered, stored < confirmed { return .rolledBack(stored: stored) }
        return .unchanged
    }

    mutating func warn(_ text: String) { warnings.append(text) }

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
        defer { warnings = [] }
        return (warnings, lengths)
    }
}
