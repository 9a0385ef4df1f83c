import Platform

/// A file with one line per request: status, token, apns-id, SHA-256 of the body. Status 000: neither accepted nor rejected.
struct LedgerFile: ~Copyable {
    /// The longest time from a verdict to its line in the file.
    static let flushInterval = Duration.milliseconds(100)
    private static let flushBytes = 1 << 20

    private let path: String
    private let descriptor: CInt
    private var buffer: [UInt8] = []
    private(set) var deadline: Instant?

    init(path: String) throws(SimulatorError) {
        self.path = path
        descriptor = try Files.openForAppending(path)
    }

    deinit { Files.close(descriptor) }

    mutating func add(_ status: Int, _ request: Request, _ hash: String) {
        let now = Instant.now
        if buffer.isEmpty { deadline = now + LedgerFile.flushInterval }
        let digits = [UInt8(48 + status / 100 % 10), UInt8(48 + status / 10 % 10), UInt8(48 + status % 10)]
        buffer += digits
        buffer.append(UInt8(ascii: " "))
        append(request.token)
        append(request[request.idField] ?? [])
        buffer += hash.utf8
        buffer.append(UInt8(ascii: "\n"))
        if buffer.count >= LedgerFile.flushBytes { deadline = now }
    }

    /// Appends a field without blanks, or `-` if it is empty, so that a line always has four fields.
    private mutating func append(_ field: ArraySlice<UInt8>) {
        if field.isEmpty { buffer.append(UInt8(ascii: "-")) }
        for byte in field { buffer.append((0x21...0x7E).contains(byte) ? byte : UInt8(ascii: "?")) }
        buffer.append(UInt8(ascii: " "))
    }

    mutating func flush() throws(SimulatorError) {
        defer {
            buffer.removeAll(keepingCapacity: true)
            deadline = nil
        }
        try Files.append(buffer[...], to: descriptor, path)
    }
}
