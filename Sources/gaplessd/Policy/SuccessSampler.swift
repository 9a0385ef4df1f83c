/// Selects an even share of the delivered pushes for the log: with a share of 0.01, every hundredth.
struct SuccessSampler {
    private static let whole: UInt64 = 1_000_000_000

    /// The billionth parts of a line that have accumulated. Below `whole`.
    private var sum: UInt64 = 0

    /// Returns whether the next push is logged.
    ///
    /// - Parameter share: from 0 to 1.
    mutating func takesNext(share: Double) -> Bool {
        sum += UInt64((min(1, max(0, share)) * Double(Self.whole)).rounded())
        if sum < Self.whole { return false }
        sum -= Self.whole
        return true
    }
}
