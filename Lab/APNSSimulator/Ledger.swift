public import Clocks
import Threads

/// What came of one request, as the simulator sees it.
public enum Verdict: Sendable, Equatable {
    /// APNs has the push. `isAnswered` is false where the connection was cut before the client could learn of it.
    case accepted(isAnswered: Bool)
    case refused(status: Int, reason: String)
    case silent
    case streamReset(code: UInt32)
    case connectionCut
    /// Not accepted, and nobody will ever say anything on its connection again.
    case halfOpen
    case goneAway

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

    /// For the ledger file: 000 is neither accepted nor refused.
    var status: Int {
        switch self {
        case .accepted: 200
        case .refused(let status, _): status
        case .silent, .streamReset, .connectionCut, .halfOpen, .goneAway: 0
        }
    }
}

/// One request in the ledger.
public struct LedgerEntry: Sendable, Equatable {
    public var verdict: Verdict
    /// As in the answer: the client's own, or one made in its place. Of a broadcast it is `apns-request-id`.
    public var apnsID: String
    /// As in the path, case and all; empty where the path had none. Of a broadcast it is the channel id.
    public var token: String
    /// Of a broadcast it is the bundle id in the path.
    public var topic: String?
    public var isBroadcast: Bool
    public var pushType: String?
    public var priority: String?
    public var expiration: String?
    public var collapseID: String?
    /// Lower-case hex.
    public var bodySHA256: String
    /// Only where the ledger keeps bodies.
    public var body: [UInt8]?
    /// Numbered from 1 in the order of their handshakes.
    public var connection: Int
    /// HTTP/2 stream id.
    public var stream: Int32
    /// When the verdict was given.
    public var time: Instant
}

/// How much a simulator remembers.
public enum LedgerDetail: Sendable, Equatable {
    /// `Totals` alone: what a benchmark wants.
    case counts
    /// Every request; with their bodies where asked for.
    case requests(keepsBodies: Bool)
}

/// What a simulator has seen and what it said, for any thread to look at. An answer is in here before it is on the wire.
public final class Ledger: Sendable {
    private struct Books {
        var totals = Totals()
        var entries: [LedgerEntry] = []
        /// Lower-case token to the places of its requests.
        var byToken: [String: [Int]] = [:]
        var fileError: SimulatorError?
    }

    private let books = Locked(Books())

    public var totals: Totals { books.withLock { $0.totals } }

    /// Every request in the order of its verdict, without end: about 500 bytes each. Empty where only counts are kept.
    public var entries: [LedgerEntry] { books.withLock { $0.entries } }

    /// Of one token, whose digits may be of any case, or one channel.
    public func requests(for token: String) -> [LedgerEntry] {
        let key = token.lowercased()
        return books.withLock { books in books.byToken[key, default: []].map { books.entries[$0] } }
    }

    /// How often a push for `token` was accepted: 1 is what everybody wants.
    public func acceptedCount(token: String) -> Int {
        requests(for: token).count { if case .accepted = $0.verdict { true } else { false } }
    }

    /// Every token with an accepted push, in lower case, and how many.
    public var acceptedCounts: [String: Int] {
        books.withLock { books in
            books.byToken.compactMapValues { places in
                let count = places.count { if case .accepted = books.entries[$0].verdict { true } else { false } }
                return count == 0 ? nil : count
            }
        }
    }

    /// Set once the ledger file could not be written; nothing has gone into it since.
    public var fileError: SimulatorError? { books.withLock { $0.fileError } }

    func add(_ totals: Totals, _ entries: [LedgerEntry]) {
        books.withLock { books in
            books.totals.add(totals)
            for entry in entries {
                books.byToken[entry.token.lowercased(), default: []].append(books.entries.count)
                books.entries.append(entry)
            }
        }
    }

    func fileFailed(_ error: SimulatorError) { books.withLock { $0.fileError = error } }
}
