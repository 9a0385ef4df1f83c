/// What the simulator saw, read from its ledger file: one line for each request,
/// `status token apns-id bodyhash`, in the order in which it decided.
public struct Ledger: Sendable {
    public struct Entry: Sendable, Equatable {
        /// The HTTP status that was answered, or meant.
        public var status: Int
        public var token: String
    }

    public private(set) var entries: [Entry] = []

    public init(_ text: String) {
        // The last line may still be half written.
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            let fields = line.split(separator: " ")
            guard fields.count >= 2, let status = Int(fields[0]) else { continue }
            entries.append(Entry(status: status, token: String(fields[1])))
        }
    }

    /// How often each token was accepted.
    public var accepted: [String: Int] {
        entries.reduce(into: [:]) { counts, entry in
            if entry.status == 200 { counts[entry.token, default: 0] += 1 }
        }
    }
}
