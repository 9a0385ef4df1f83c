/// Settings of a server that can lose jobs, read from INFO.
struct ServerInfo {
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
