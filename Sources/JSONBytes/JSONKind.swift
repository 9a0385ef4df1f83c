/// The kind of a JSON value, which its first byte tells.
public enum JSONKind: Sendable, Equatable {
    case object, array, string, number, bool, null
}
