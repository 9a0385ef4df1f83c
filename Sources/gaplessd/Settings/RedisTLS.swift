import Platform
import PushPool

/// The files for TLS to Redis.
struct RedisTLS: Sendable, Equatable {
    /// Trusted instead of the system's roots, as `redis-cli --cacert` does.
    var rootsPath: String?
    /// Presented to Redis if Redis asks for a certificate.
    var certificatePath: String?
    /// `nil` if the file of the certificate contains the key.
    var keyPath: String?
    /// The name in the certificate of Redis and of the Sentinels; `nil` is the host of the connection.
    var name: String?

    /// Reads the files. Does not check the dates of the certificate.
    ///
    /// - Returns: no context after a fault, and no certificate if its file is not readable.
    func read(
        _ findings: inout SettingsFindings
    ) -> (context: TLSContext?, certificate: SettingsErrors.Certificate?) {
        let before = findings.faults.count
        let roots = roots(&findings)
        let areRootsUsable = findings.faults.count == before
        var certificate: SettingsErrors.Certificate?
        let identity = identity(&findings, &certificate)
        // Without usable roots the identity is still checked.
        guard areRootsUsable || identity != nil else { return (nil, certificate) }
        do {
            let context = try TLSContext(
                clientTrusting: try roots ?? TLSRoots(bundle: nil), identity: identity, protocols: [], serverName: name)
            return (findings.faults.count == before ? context : nil, certificate)
        } catch {
            let paths = [certificatePath, keyPath].compactMap(\.self).joined(separator: " and ")
            findings.fault("redis_cert_path", "\(paths): \(error)", expected: "a certificate and its private key, both PEM")
            return (nil, certificate)
        }
    }

    private func roots(_ findings: inout SettingsFindings) -> TLSRoots? {
        guard let rootsPath, let bytes = findings.read(rootsPath, at: "redis_ca_path") else { return nil }
        let roots = try? TLSRoots(pem: CredentialFile(bytes).pem, onlyThose: true)
        if roots == nil {
            findings.fault(
                "redis_ca_path", "\(rootsPath) contains no certificates", expected: "a PEM bundle of root certificates")
        }
        return roots
    }

    private func identity(
        _ findings: inout SettingsFindings, _ seen: inout SettingsErrors.Certificate?
    ) -> TLSContext.Identity? {
        guard let certificatePath else { return nil }
        let before = findings.faults.count
        let certificate = findings.read(certificatePath, at: "redis_cert_path")
        if let certificate, CredentialFile(certificate).isOnly(.privateKey), let keyPath, keyPath != certificatePath,
            let key = findings.read(keyPath, at: "redis_key_path"), CredentialFile(key).isOnly(.certificate)
        {
            findings.fault(
                "redis_cert_path", "the certificate and the key are swapped",
                expected: "redis_cert_path: \(keyPath), redis_key_path: \(certificatePath)")
            return nil
        }
        if let certificate, let error = Credential.fault(ofCertificates: certificate) {
            findings.fault("redis_cert_path", sentence: "\(certificatePath): \(error)")
        }
        let keyPath = keyPath ?? certificatePath
        let key = keyPath == certificatePath ? certificate : findings.read(keyPath, at: "redis_key_path")
        if let key, let error = Credential.fault(ofKey: key, passphrase: nil) {
            if error.part == .password {
                findings.fault("redis_key_path", "\(keyPath) contains an encrypted key", expected: "an unencrypted key")
            } else {
                findings.fault("redis_key_path", sentence: "\(keyPath): \(error)")
            }
        }
        if let certificate, let facts = Credential.facts(ofCertificates: certificate, keyPEM: key, passphrase: nil) {
            seen = SettingsErrors.Certificate(owner: .redis, path: certificatePath, facts: facts)
        }
        guard findings.faults.count == before, let certificate, let key else { return nil }
        return Credential.standardPEM(certPEM: certificate, keyPEM: key).map {
            TLSContext.Identity(certificatesPEM: $0.certificates, keyPEM: $0.key)
        }
    }
}
