/// News of provider tokens, for the log.
public enum TokenNews: Sendable, Equatable {
    /// A new token was signed.
    case minted(key: String)
    /// A stored token is used.
    case found(key: String, age: Duration)
    /// Tokens cannot be stored. The text says why.
    case notKept(key: String, String)
}
