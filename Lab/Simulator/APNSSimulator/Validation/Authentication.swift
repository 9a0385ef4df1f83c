/// The kinds of credentials that clients may use.
public enum Authentication: String, Sendable, CaseIterable {
    case any, token, certificate
}
