import Threads

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
