import Platform

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
