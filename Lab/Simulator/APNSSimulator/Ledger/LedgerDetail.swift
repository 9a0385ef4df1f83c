/// The amount of data in the ledger.
public enum LedgerDetail: Sendable, Equatable {
    /// Only `Totals`, for benchmarks.
    case counts
    /// Every request, optionally with its body.
    case requests(keepsBodies: Bool)
}
