internal import PushPool

/// The credential of a client. Its description never shows its content.
public struct APNSAuthentication: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private enum Content {
        case signingKey(pem: String, keyID: String, teamID: String)
        case certificate(pem: String, key: String, passphrase: String?)
        case pkcs12([UInt8], password: String)
    }

    /// Hides the content from reflection.
    private final class Secret: Sendable {
        let content: Content
        init(_ content: Content) { self.content = content }
    }

    private let secret: Secret
    public let description: String

    private init(_ content: Content, _ description: String) {
        secret = Secret(content)
        self.description = description
    }

    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// A provider signing key.
    ///
    /// - Parameters:
    ///   - pem: the text of the `.p8` file.
    ///   - keyID: 10 characters, shown with the key in the developer account.
    ///   - teamID: 10 characters, shown under Membership.
    public static func signingKey(pem: String, keyID: String, teamID: String) -> APNSAuthentication {
        APNSAuthentication(.signingKey(pem: pem, keyID: keyID, teamID: teamID), "a signing key")
    }

    /// A client certificate with its key, both in PEM; the two may be the same text.
    public static func certificate(pem: String, key: String, passphrase: String? = nil) -> APNSAuthentication {
        APNSAuthentication(.certificate(pem: pem, key: key, passphrase: passphrase), "a certificate")
    }

    /// A client certificate with its key as the Keychain exports them (`.p12`).
    public static func pkcs12(_ file: [UInt8], password: String) -> APNSAuthentication {
        APNSAuthentication(.pkcs12(file, password: password), "a PKCS#12 file")
    }

    func credential(tokenFolder: String?) throws(APNSError) -> Credential {
        do throws(CredentialError) {
            switch secret.content {
            case .signingKey(let pem, let keyID, let teamID):
                return try Credential.signingKey(p8PEM: Array(pem.utf8), keyID: keyID, teamID: teamID, tokenFolder: tokenFolder)
            case .certificate(let pem, let key, let passphrase):
                return try Credential.certificate(certPEM: Array(pem.utf8), keyPEM: Array(key.utf8), passphrase: passphrase)
            case .pkcs12(let file, let password): return try Credential.pkcs12(file, password: password)
            }
        } catch { throw .invalid(error.description) }
    }
}
