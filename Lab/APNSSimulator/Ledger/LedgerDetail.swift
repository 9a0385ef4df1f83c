/// How much a simulator remembers.
public enum LedgerDetail: Sendable, Equatable {
    /// `Totals` alone: what a benchmark wants.
    case counts
    /// Every request; with their bodies where asked for.
    case requests(keepsBodies: Bool)
}
