/// What proves to APNs who we are: a client certificate, or a key that signs provider tokens.
///
/// Its description says what it is, never what it contains.
public struct Credential: Sendable {
}

/// Why a credential cannot be used: a sentence that names the file and what would be right, never its content.
public struct CredentialError: Error, Sendable, Equatable, CustomStringConvertible {
    public var description: String
    public init(_ description: String) { self.description = description }
}
