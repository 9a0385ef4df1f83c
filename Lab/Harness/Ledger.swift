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
}
