internal import Glibc
internal import Sockets

/// What proves to APNs who we are: a client certificate, or a key that signs provider tokens.
///
/// Its description says what it is, never what it contains. Every way to make one checks all that can be checked without
/// asking Apple; the error is a sentence for the operator, before which the caller puts file and settings key.
public struct Credential: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Keeps key material out of reach of reflection, and in one place.
    private final class Secret: Sendable {
        let identity: TLSContext.Identity?
        init(_ identity: TLSContext.Identity?) { self.identity = identity }
    }

    /// What the client certificate says; `nil` with a signing key.
    public let certificate: CertificateFacts?
    public let description: String
    private let secret: Secret
    /// One for all credentials with the same key: APNs counts tokens by key, not by pool.
    let tokens: ProviderTokenSource?

    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }

    /// For the TLS handshake.
    var identity: TLSContext.Identity? { secret.identity }

    /// Whether provider tokens cannot be kept for other processes and for the next start; `nil` where they can, and with a
    /// certificate. Mints none.
    public func newsOfKeepingTokens() -> TokenNews? { tokens?.newsOfKeeping() }

    /// A client certificate with its key, both PEM; the two may be the same text.
    ///
    /// - Parameters:
    ///   - certPEM: the certificate, then any intermediates.
    ///   - passphrase: of an encrypted key.
    ///   - now: Unix seconds, for the certificate's dates; `nil` is this machine's clock.
    public static func certificate(
        certPEM: [UInt8], keyPEM: [UInt8], passphrase: String? = nil, now: Int64? = nil
    ) throws(CredentialError) -> Credential {
        let certificates = try Certificate.all(pem: certPEM)
        let key = try PrivateKey(pem: keyPEM, passphrase: passphrase)
        return try Credential(certificates, key, now: now ?? Int64(time(nil)))
    }

    /// What is wrong with the certificates of a PEM text by themselves; `nil` where nothing is.
    public static func fault(ofCertificates pem: [UInt8]) -> CredentialError? {
        do {
            _ = try Certificate.all(pem: pem)
            return nil
        } catch { return error }
    }

    /// What is wrong with the private key of a PEM text by itself; `nil` where nothing is.
    public static func fault(ofKey pem: [UInt8], passphrase: String?) -> CredentialError? {
        do {
            _ = try PrivateKey(pem: pem, passphrase: passphrase)
            return nil
        } catch { return error }
    }

    /// What is wrong with a PKCS#12 file by itself; `nil` where nothing is.
    public static func fault(ofPKCS12 bytes: [UInt8], password: String) -> CredentialError? {
        do {
            _ = try PKCS12File.open(bytes, password: password)
            return nil
        } catch { return error }
    }

    /// What is wrong with a signing key by itself, whatever its names are; `nil` where nothing is.
    public static func fault(ofSigningKey p8PEM: [UInt8]) -> CredentialError? {
        do {
            _ = try SigningKey(p8PEM: p8PEM, keyID: "0000000000", teamID: "0000000000")
            return nil
        } catch { return error }
    }

    /// What the client certificate of a PEM text says, be it expired, or beside no key or a wrong one: that of the key, else the
    /// first with a topic, else the first. `nil` where there is none.
    public static func facts(ofCertificates pem: [UInt8], keyPEM: [UInt8]?, passphrase: String?) -> CertificateFacts? {
        guard let certificates = try? Certificate.all(pem: pem) else { return nil }
        let key = keyPEM.flatMap { try? PrivateKey(pem: $0, passphrase: passphrase) }
        if let own = key.flatMap({ certificates.first(where: $0.belongs) }) { return own.facts }
        let facts = certificates.map(\.facts)
        return facts.first { $0.defaultTopic != nil || !$0.topics.isEmpty } ?? facts.first
    }

    /// The same of a PKCS#12 file that its password opens.
    public static func facts(ofPKCS12 bytes: [UInt8], password: String) -> CertificateFacts? {
        (try? PKCS12File.certificates(bytes, password: password))?.first?.facts
    }

    /// A PKCS#12 file's bytes, as the Keychain exports it; RC2-40 and 3DES ones too.
    public static func pkcs12(
        _ bytes: [UInt8], password: String, now: Int64? = nil
    ) throws(CredentialError) -> Credential {
        let content = try PKCS12File.open(bytes, password: password)
        return try Credential(content.certificates, content.key, now: now ?? Int64(time(nil)))
    }

    /// A provider signing key (`.p8`).
    ///
    /// - Parameters:
    ///   - keyID: 10 characters, shown beside the key in the developer account.
    ///   - teamID: 10 characters, shown under Membership.
    ///   - tokenFolder: where provider tokens are kept for other processes and for the next start; made when it is first
    ///     needed. `nil` keeps them in this process alone.
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
    }

    private init(_ certificates: [Certificate], _ key: PrivateKey, now: Int64) throws(CredentialError) {
        // A file may name the chain in any order: the certificate with our key is ours.
        guard let own = certificates.first(where: key.belongs) else {
            throw CredentialError(
                "the private key does not belong to the certificate; both must come from the same signing request")
        }
        let facts = own.facts
        try facts.checkDates(now: now)
        let others = certificates.filter { $0 !== own }
        var chain: [UInt8] = []
        for certificate in [own] + others { chain += try certificate.pem() }
        secret = Secret(TLSContext.Identity(certificatesPEM: chain, keyPEM: try key.pem()))
        certificate = facts
        tokens = nil
        description = "certificate \(facts.subject)"
    }
}
