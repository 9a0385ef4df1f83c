internal import Sockets

/// Why a credential cannot be used: a sentence that names what is wrong and what would be right, never its content.
public struct CredentialError: Error, Sendable, Equatable, CustomStringConvertible {
    /// What of the credential is at fault: who names a key of the settings must know.
    public enum Part: Sendable { case whole, privateKey, password }

    public var description: String
    public var part: Part

    public init(_ description: String, in part: Part = .whole) {
        self.description = description
        self.part = part
    }
}
