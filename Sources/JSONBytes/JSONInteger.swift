/// An integer as it stands in a JSON text.
public enum JSONInteger: Sendable, Equatable {
    case exact(Int64)
    /// Beyond 64 bits with sign.
    case outOfRange(isNegative: Bool)
}
