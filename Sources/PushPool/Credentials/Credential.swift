internal import Glibc
internal import Platform

/// Authenticates a pool to APNs: a client certificate, or a key that signs provider tokens.
///
/// Its description names it and never contains its content. Every initialiser performs all checks that need no contact with
/// Apple. An error is a sentence for the operator; the caller prefixes the file and the settings key.
public struct Credential: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Hides key material from reflection.
    private final class Secret: Sendable {
        let identity: TLSContext.Identity?
        init(_ identity: TLSContext.Identity?) { self.identity = identity }
    }

    /// The content of the client certificate; `nil` with a signing key.
    public let certificate: CertificateFacts?
    public let description: String
    private let secret: Secret
    /// Public: the digest of the certificate, or the ids of the signing key.
    private let publicName: String
    /// Shared by all credentials with the same key: APNs counts tokens by key, not by pool.
    let tokens: ProviderTokenSource?

    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// Names the credential together with a server and a topic: the first half of a SHA-256, in hex, which contains no secret.
    public func fingerprint(server: String, topic: String?) -> String {
        hexadecimal(sha256(Array("\(publicName)\n\(server)\n\(topic ?? "")".utf8)).prefix(16))
    }

    /// For the TLS handshake.
    var identity: TLSContext.Identity? { secret.identity }

    /// Returns the reason why provider tokens cannot be stored for other processes and the next start, or `nil` if they can.
    /// Signs no token.
    public func newsOfKeepingTokens() -> TokenNews? { tokens?.newsOfKeeping() }

    /// Shares provider tokens with other machines from now on. A certificate needs none.
    public func shareTokens(through exchange: ProviderTokenExchange) { tokens?.share(through: exchange) }

    /// Loads a client certificate with its key, both in PEM; the two may be the same text.
    ///
    /// - Parameters:
    ///   - certPEM: the certificate, then any intermediates.
    ///   - passphrase: the passphrase of an encrypted key.
    ///   - now: Unix seconds to check the dates against; `nil` uses this machine's clock.
    public static func certificate(
        certPEM: [UInt8], keyPEM: [UInt8], passphrase: String? = nil, now: Int64? = nil
    ) throws(CredentialError) -> Credential {
        let certificates = try Certificate.all(pem: certPEM)
        let key = try PrivateKey(pem: keyPEM, passphrase: passphrase)
        return try Credential(certificates, key, now: now ?? Int64(time(nil)))
    }

    /// Returns the certificates, in the order of the file, and the key of a client in standard PEM; `nil` if one of them cannot
    /// be read.
    package static func standardPEM(certPEM: [UInt8], keyPEM: [UInt8]) -> (certificates: [UInt8], key: [UInt8])? {
        guard let certificates = try? Certificate.all(pem: certPEM), let chain = try? certificates.map({ try $0.pem() }),
            let key = try? PrivateKey(pem: keyPEM, passphrase: nil).pem()
        else { return nil }
        return (Array(chain.joined()), key)
    }

    /// Returns the error in the certificates of a PEM text by themselves, or `nil`.
    public static func fault(ofCertificates pem: [UInt8]) -> CredentialError? {
        error { () throws(CredentialError) in try Certificate.all(pem: pem) }
    }

    /// Returns the error in the private key of a PEM text by itself, or `nil`.
    public static func fault(ofKey pem: [UInt8], passphrase: String?) -> CredentialError? {
        error { () throws(CredentialError) in try PrivateKey(pem: pem, passphrase: passphrase) }
    }

    /// Returns the error in a PKCS#12 file by itself, or `nil`.
    public static func fault(ofPKCS12 bytes: [UInt8], password: String) -> CredentialError? {
        error { () throws(CredentialError) in try PKCS12File.open(bytes, password: password) }
    }

    /// Returns the error in a signing key by itself, whatever its ids are, or `nil`.
    public static func fault(ofSigningKey p8PEM: [UInt8]) -> CredentialError? {
        error { () throws(CredentialError) in try SigningKey(p8PEM: p8PEM, keyID: "0000000000", teamID: "0000000000") }
    }

    private static func error<Value>(of check: () throws(CredentialError) -> Value) -> CredentialError? {
        do {
            _ = try check()
            return nil
        } catch { return error }
    }

    /// Returns the content of the client certificate in a PEM text, even if it is expired or its key is missing or wrong: the
    /// certificate of the key, otherwise the first with a topic, otherwise the first.
    public static func facts(ofCertificates pem: [UInt8], keyPEM: [UInt8]?, passphrase: String?) -> CertificateFacts? {
        guard let certificates = try? Certificate.all(pem: pem) else { return nil }
        let key = keyPEM.flatMap { try? PrivateKey(pem: $0, passphrase: passphrase) }
        if let own = key.flatMap({ certificates.first(where: $0.belongs) }) { return own.facts }
        let facts = certificates.map(\.facts)
        return facts.first { $0.defaultTopic != nil || !$0.topics.isEmpty } ?? facts.first
    }

    /// Returns the content of the client certificate in a PKCS#12 file that the password opens.
    public static func facts(ofPKCS12 bytes: [UInt8], password: String) -> CertificateFacts? {
        (try? PKCS12File.read(bytes, password: password))?.certificates.first?.facts
    }

    /// Loads a PKCS#12 file as the Keychain exports it, including those with RC2-40 and 3DES.
    public static func pkcs12(_ bytes: [UInt8], password: String, now: Int64? = nil) throws(CredentialError) -> Credential {
        let content = try PKCS12File.open(bytes, password: password)
        return try Credential(content.certificates, content.key, now: now ?? Int64(time(nil)))
    }

    /// Loads a provider signing key (`.p8`).
    ///
    /// - Parameters:
    ///   - keyID: 10 characters, shown with the key in the developer account.
    ///   - teamID: 10 characters, shown under Membership.
    ///   - tokenFolder: the folder of stored provider tokens, created on first use; `nil` keeps tokens in this process.
    public static func signingKey(
        p8PEM: [UInt8], keyID: String, teamID: String, tokenFolder: String? = nil
    ) throws(CredentialError) -> Credential {
        let key = try SigningKey(p8PEM: p8PEM, keyID: keyID, teamID: teamID)
        return Credential(signingWith: key, tokenFolder)
    }

    private init(signingWith key: SigningKey, _ tokenFolder: String?) {
        certificate = nil
        secret = Secret(nil)
        tokens = ProviderTokenSource.shared(for: key, folder: tokenFolder)
        description = "signing key \(key.keyID) of team \(key.teamID)"
        publicName = "key \(key.keyID) \(key.teamID)"
    }

    private init(_ certificates: [Certificate], _ key: PrivateKey, now: Int64) throws(CredentialError) {
        // A file may contain the chain in any order: the leaf is the certificate of the key.
        guard let own = certificates.first(where: key.belongs) else {
            throw CredentialError(
                "the private key does not belong to the certificate; expected both from the same signing request")
        }
        let facts = own.facts
        if let fault = facts.faultOfDates(now: now) { throw fault }
        let others = certificates.filter { $0 !== own }
        var chain: [UInt8] = []
        for certificate in [own] + others { chain += try certificate.pem() }
        secret = Secret(TLSContext.Identity(certificatesPEM: chain, keyPEM: try key.pem()))
        certificate = facts
        tokens = nil
        description = "certificate \(facts.subject)"
        publicName = "certificate \(hexadecimal(sha256(try own.pem())))"
    }
}

/// The reason why a credential cannot be used: a sentence that names the error and the remedy, never the content.
public struct CredentialError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The part of the credential that is at fault, which decides the settings key to name.
    public enum Part: Sendable { case whole, privateKey, password }

    public var description: String
    public var part: Part
    /// The blocks of the file that lacks the expected ones.
    package var contents: [CredentialFile.Content] = []

    public init(_ description: String, in part: Part = .whole) {
        self.description = description
        self.part = part
    }

    package init(_ description: String, in part: Part = .whole, contents: [CredentialFile.Content]) {
        self.init(description, in: part)
        self.contents = contents
    }
}
