public import Platform

/// The requests of a simulator and their outcomes, for any thread. An outcome is recorded before its answer is on the wire.
public final class Ledger: Sendable {
    private struct State {
        var totals = Totals()
        var entries: [LedgerEntry] = []
        /// Indices of the requests of each token, in lower case.
        var byToken: [String: [Int]] = [:]
        var fileError: SimulatorError?
    }

    private let state = Locked(State())

    public var totals: Totals { state.withLock { $0.totals } }

    /// Every request in the order of its verdict, about 500 bytes each. Never trimmed. Empty with `LedgerDetail.counts`.
    public var entries: [LedgerEntry] { state.withLock { $0.entries } }

    /// Returns the requests of a token, in any case, or of a channel.
    public func requests(for token: String) -> [LedgerEntry] {
        let key = token.lowercased()
        return state.withLock { state in state.byToken[key, default: []].map { state.entries[$0] } }
    }

    /// Returns the number of accepted pushes for `token`.
    public func acceptedCount(token: String) -> Int {
        requests(for: token).count(where: \.verdict.isAccepted)
    }

    /// The number of accepted pushes for each token, in lower case.
    public var acceptedCounts: [String: Int] {
        state.withLock { state in
            state.byToken.compactMapValues { places in
                let count = places.count { state.entries[$0].verdict.isAccepted }
                return count == 0 ? nil : count
            }
        }
    }

    /// The error after which the ledger file is no longer written.
    public var fileError: SimulatorError? { state.withLock { $0.fileError } }

    func add(_ totals: Totals, _ entries: [LedgerEntry]) {
        state.withLock { state in
            state.totals.add(totals)
            for entry in entries {
                state.byToken[entry.token.lowercased(), default: []].append(state.entries.count)
                state.entries.append(entry)
            }
        }
    }

    func fileFailed(_ error: SimulatorError) { state.withLock { $0.fileError = error } }
}

/// The amount of data in the ledger.
public enum LedgerDetail: Sendable, Equatable {
    /// Only `Totals`, for benchmarks.
    case counts
    /// Every request, optionally with its body.
    case requests(keepsBodies: Bool)
}

/// One request in the ledger.
public struct LedgerEntry: Sendable, Equatable {
    public var verdict: Verdict
    /// The id in the answer, from the client or created. For a broadcast, `apns-request-id`.
    public var apnsID: String
    /// The device token in the path, with its case; empty if the path has none. For a broadcast, the channel id.
    public var token: String
    /// For a broadcast, the bundle id in the path.
    public var topic: String?
    public var isBroadcast: Bool
    public var pushType: String?
    public var priority: String?
    public var expiration: String?
    public var collapseID: String?
    /// Lower-case hex.
    public var bodySHA256: String
    /// Present if the ledger keeps bodies.
    public var body: [UInt8]?
    /// The number of the connection, from 1, in the order of accepts.
    public var connection: Int
    /// HTTP/2 stream id.
    public var stream: Int32
    /// The time of the verdict.
    public var time: Instant
}

/// The outcome of a request.
public enum Verdict: Sendable, Equatable {
    /// The push was accepted. `isAnswered` is false if the connection was cut before the answer.
    case accepted(isAnswered: Bool)
    case refused(status: Int, reason: String)
    case silent
    case streamReset(code: UInt32)
    case connectionCut
    /// Not accepted, on a connection that stays silent from now on.
    case halfOpen
    case goneAway

    public var isAccepted: Bool { if case .accepted = self { true } else { false } }

    /// The key of `Totals.answers`.
    var label: String {
        switch self {
        case .accepted: "200"
        case .refused(let status, let reason): reason.isEmpty ? "\(status)" : "\(status) \(reason)"
        case .silent: "silent"
        case .streamReset(let code): "RST_STREAM \(code)"
        case .connectionCut: "cut"
        case .halfOpen: "half-open"
        case .goneAway: "GOAWAY"
        }
    }

    /// The status in the ledger file; 0 is neither accepted nor rejected.
    var status: Int {
        switch self {
        case .accepted: 200
        case .refused(let status, _): status
        case .silent, .streamReset, .connectionCut, .halfOpen, .goneAway: 0
        }
    }
}

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

/// Collects the entries of one turn of the loop and publishes them before the turn's answers are written.
final class LedgerWriter {
    let ledger: Ledger
    private let detail: LedgerDetail
    private var file: LedgerFile?
    private var entries: [LedgerEntry] = []
    /// `nil` if no recent pushes are kept.
    private let recent: RecentPushes?
    private var pushes: [RecentPush] = []
    var totals = Totals()

    init(_ ledger: Ledger, _ detail: LedgerDetail, filePath: String?, recent: RecentPushes?) throws(SimulatorError) {
        self.ledger = ledger
        self.detail = detail
        self.recent = recent
        if let filePath { file = try LedgerFile(path: filePath) }
    }

    func record(_ verdict: Verdict, _ request: Request, connection: Int, time: Instant) {
        totals.requests += 1
        if verdict.isAccepted { totals.accepted += 1 } else { totals.answers[verdict.label, default: 0] += 1 }
        if recent != nil { pushes.append(RecentPush(request, verdict, time: Int64(WallClock.now().seconds * 1000))) }
        if detail == .counts && file == nil { return }
        let hash = SHA256.hex(request.body)
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
        recent?.add(pushes)
        pushes.removeAll(keepingCapacity: true)
        totals = Totals()
        entries.removeAll(keepingCapacity: true)
    }

    /// The time of the next flush of the file.
    var deadline: Instant? { file?.deadline }

    func flushFile(now: Instant, isLast: Bool = false) {
        guard let due = file?.deadline, isLast || due <= now else { return }
        do throws(SimulatorError) {
            try file?.flush()
        } catch {
            // The simulator continues. `fileError` reports the fault, and the tool prints it.
            ledger.fileFailed(error)
            file = nil
        }
    }
}
