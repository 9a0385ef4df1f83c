import Clocks

/// The loop's side of the ledger: gathers during one turn, publishes before the turn's answers are written.
final class LedgerWriter {
    let ledger: Ledger
    private let detail: LedgerDetail
    private var file: LedgerFile?
    private var entries: [LedgerEntry] = []
    var totals = Totals()

    init(_ ledger: Ledger, _ detail: LedgerDetail, filePath: String?) throws(SimulatorError) {
        self.ledger = ledger
        self.detail = detail
        if let filePath { file = try LedgerFile(path: filePath) }
    }

    func record(_ verdict: Verdict, _ request: Request, connection: Int, time: Instant) {
        totals.requests += 1
        if case .accepted = verdict { totals.accepted += 1 } else { totals.answers[verdict.label, default: 0] += 1 }
        if detail == .counts && file == nil { return }
        let hash = sha256Hex(request.body)
        file?.add(verdict.status, request, hash)
        guard case .requests(let keepsBodies) = detail else { return }
        entries.append(
            LedgerEntry(
                verdict: verdict, apnsID: request.text(request.idField) ?? "",
                token: String(decoding: request.token, as: UTF8.self),
                topic: request.appRange.map { String(decoding: request.bytes[$0], as: UTF8.self) } ?? request.text(.topic),
                isBroadcast: request.kind == .broadcast,
                pushType: request.text(.pushType), priority: request.text(.priority),
                expiration: request.text(.expiration), collapseID: request.text(.collapseID), bodySHA256: hash,
                body: keepsBodies ? request.body : nil, connection: connection, stream: request.stream, time: time))
    }

    func publish() {
        if totals == Totals() { return }
        ledger.add(totals, entries)
        totals = Totals()
        entries.removeAll(keepingCapacity: true)
    }

    /// When the file wants to be flushed.
    var deadline: Instant? { file?.deadline }

    func flushFile(now: Instant, isLast: Bool = false) {
        guard let due = file?.deadline, isLast || due <= now else { return }
        do throws(SimulatorError) {
            try file?.flush()
        } catch {
            // The answers go on; whoever reads the file's end must ask `fileError`, and the tool says it on stderr.
            ledger.fileFailed(error)
            file = nil
        }
    }
}

/// One line per request: status, token, apns-id, SHA-256 of the body. A status of 000 was neither accepted nor refused.
struct LedgerFile: ~Copyable {
    /// A line is in the file so long after its verdict at the latest.
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

    /// A field is never empty and never holds a blank, so that a line always splits into four.
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
