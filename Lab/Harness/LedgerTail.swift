import Clocks
import Glibc

/// Reads a ledger file while it grows, each line once.
public struct LedgerTail {
    private let path: String
    private var offset = 0
    /// Everything accepted so far, and how often.
    public private(set) var accepted: [String: Int] = [:]
    /// Lines so far.
    public private(set) var count = 0

    public init(_ path: String) { self.path = path }

    /// Takes in what was written since; whether there was anything.
    public mutating func read() -> Bool {
        guard let file = fopen(path, "r") else { return false }
        defer { fclose(file) }
        fseek(file, offset, SEEK_SET)
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while case let read = fread(&buffer, 1, buffer.count, file), read > 0 { bytes += buffer[..<read] }
        // The last line may still be half written.
        guard let end = bytes.lastIndex(of: UInt8(ascii: "\n")) else { return false }
        offset += end + 1
        let entries = Ledger(String(decoding: bytes[...end], as: UTF8.self)).entries
        count += entries.count
        for entry in entries where entry.status == 200 { accepted[entry.token, default: 0] += 1 }
        return true
    }

    /// Reads until nothing came for so long: the ledger is at most 100 ms behind the answers.
    public mutating func readUntilSilent(for silence: Duration = .milliseconds(300), atMost limit: Duration = .seconds(30)) {
        var last = Instant.now
        _ = waitUntil(atMost: limit, every: .milliseconds(10)) {
            if read() { last = .now }
            return .now - last >= silence
        }
        _ = read()
    }
}
