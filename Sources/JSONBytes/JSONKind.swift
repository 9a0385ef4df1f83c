/// What a JSON value is, told by its first byte.
public enum JSONKind: Sendable, Equatable {
    case object, array, string, number, bool, null
}
