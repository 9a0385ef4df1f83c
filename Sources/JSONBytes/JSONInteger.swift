/// An integer of a JSON text.
public enum JSONInteger: Sendable, Equatable {
    case exact(Int64)
    /// Outside of signed 64 bits.
    case outOfRange(isNegative: Bool)
}
