/// What became of provider tokens, for the log.
public enum TokenNews: Sendable, Equatable {
    /// A new one was signed.
    case minted(key: String)
    /// One that another process made is used, or an earlier one of ours.
    case found(key: String, age: Duration)
    /// It cannot be kept for others and for the next start: why.
    case notKept(key: String, String)
}
