import Platform

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
        requests(for: token).count { if case .accepted = $0.verdict { true } else { false } }
    }

    /// The number of accepted pushes for each token, in lower case.
    public var acceptedCounts: [String: Int] {
        state.withLock { state in
            state.byToken.compactMapValues { places in
                let count = places.count { if case .accepted = state.entries[$0].verdict { true } else { false } }
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
