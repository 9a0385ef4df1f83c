internal import Platform

/// The reason why a credential cannot be used: a sentence that names the error and the remedy, never the content.
public struct CredentialError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The part of the credential that is at fault, which decides the settings key to name.
    public enum Part: Sendable { case whole, privateKey, password }

    public var description: String
    public var part: Part

    public init(_ description: String, in part: Part = .whole) {
        self.description = description
        self.part = part
    }
}
