/// Which credentials a client may show.
public enum Authentication: String, Sendable, CaseIterable {
    case any, token, certificate
}
