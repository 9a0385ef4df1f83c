import Platform
import PushPool

/// Reads the files of apps and checks them without asking Apple. Collects every fault on the way.
///
/// Each file is checked by itself first, so that no fault hides another; the files of a faulty app are checked as well.
struct CredentialLoader {
    /// Unix seconds.
    private let now: Int64
    /// The folder that keeps provider tokens.
    private let stateFolder: String?
    private(set) var findings = SettingsFindings()
    /// By `apns_ca_path`. Reading roots takes most of a start, and apps usually share them.
    private(set) var roots: [String?: TLSRoots] = [:]
    /// The places of `apns_ca_path` that were read. Apps that share one share its fault, which is reported once.
    private var readRoots: Set<String> = []
    private var faultsOfRoots: [String: SettingsError] = [:]
    /// The content of each `apns_ca_path`, and of the files of the app that is read now.
    private var digestsOfRoots: [String: Int] = [:]
    private var contents = Hasher()
    /// Every certificate that is readable.
    private(set) var certificates: [SettingsErrors.Certificate] = []

    init(now: Int64, stateFolder: String?) {
        self.now = now
        self.stateFolder = stateFolder
    }

    /// Returns one for each app, in order; fewer only if the settings of an app are incomplete. An app whose files have a fault
    /// gets no credential.
    mutating func load(_ apps: [AppFiles]) -> [AppCredential] {
        let loaded = apps.compactMap { load($0) }
        guard loaded.count == apps.count else { return loaded }
        for (index, own) in loaded.enumerated() {
            guard let twin = loaded[..<index].firstIndex(where: { $0.topic != nil && $0.topic == own.topic }) else { continue }
            let other = apps[twin].name.map { "app \"\($0)\"" } ?? "the top level"
            findings.warn(
                apps[index].prefix + "apns_topic", "\"\(own.topic ?? "")\" is the topic of \(other) as well",
                "a job that names this topic and no app goes to \(other)")
        }
        return loaded
    }

    /// Returns the content of the app's certificate; `nil` for a signing key, which is not read, and after a fault. Checks
    /// neither the dates nor the key.
    mutating func facts(_ files: AppFiles) -> CertificateFacts? {
        let before = findings.faults.count
        let named = files.credential
        let (keyPassword, pkcs12Password) = (named.keyPassword?.text, named.pkcs12Password?.text ?? "")
        let certificate = read(named.certificatePath, "apns_cert_path", files) { Credential.fault(ofCertificates: $0) }
        let pkcs12 = read(named.pkcs12Path, "apns_p12_path", files) { Credential.fault(ofPKCS12: $0, password: pkcs12Password) }
        guard findings.faults.count == before else { return nil }
        // A key in the same file identifies the app's own certificate.
        let key = named.keyPath == nil ? certificate : nil
        return certificate.flatMap { Credential.facts(ofCertificates: $0, keyPEM: key, passphrase: keyPassword) }
            ?? pkcs12.flatMap { Credential.facts(ofPKCS12: $0, password: pkcs12Password) }
    }

    private mutating func load(_ files: AppFiles) -> AppCredential? {
        let before = findings.faults.count
        contents = Hasher()
        for fault in files.faults { findings.fault(fault) }
        let roots = roots(files)
        let (credential, facts) = credential(files)
        guard let app = files.app else { return nil }
        if let facts = credential?.certificate { check(app, facts) }
        var own = AppCredential(topic: app.topic ?? facts?.defaultTopic, certificate: facts)
        own.hasUnknownTopics = facts == nil && files.credential.namesCertificate
        own.digest = contents.finalize()
        if findings.faults.count == before, let credential, let roots {
            do {
                own.setup = try SessionPool.Setup(settings: app.pool, credential: credential, roots: roots)
                own.credential = credential
            } catch {
                // TLS has demands of its own, for example on the size of keys.
                let key = app.keyPrefix + app.credential.certificateKey
                findings.fault(key, "cannot be used: \(error)", expected: "another credential")
            }
        }
        own.faults = Array(findings.faults[before...])
        if own.faults.isEmpty, own.credential == nil { own.faults = [faultsOfRoots[files.rootsKey]].compactMap(\.self) }
        if own.topic == nil, own.credential != nil {
            findings.warn(app.keyPrefix + "apns_topic", "no default topic", "each job must name its topic")
        }
        return own
    }

    /// `nil` after a fault, and without a bundle for a faulty app.
    private mutating func roots(_ files: AppFiles) -> TLSRoots? {
        let path = files.rootsPath
        defer { if let path { contents.combine(digestsOfRoots[path]) } }
        if let known = roots[path] { return known }
        guard path != nil || files.app != nil, readRoots.insert(files.rootsKey).inserted else { return nil }
        let before = findings.faults.count
        defer { if findings.faults.count > before { faultsOfRoots[files.rootsKey] = findings.faults.last } }
        if let path {
            guard let bytes = findings.read(path, at: files.rootsKey) else { return nil }
            digestsOfRoots[path] = bytes.hashValue
        }
        let new = try? TLSRoots(bundle: path)
        roots[path] = new
        if new == nil {
            findings.fault(
                files.rootsKey, "\(path ?? "the system's bundle") contains no certificates",
                expected: "a PEM bundle of root certificates")
        }
        return new
    }

    /// Checks each file, then makes the credential of a faultless app. The facts of a readable certificate are returned in any
    /// case.
    private mutating func credential(_ files: AppFiles) -> (Credential?, CertificateFacts?) {
        let before = findings.faults.count
        let named = files.credential
        let (keyPassword, pkcs12Password) = (named.keyPassword?.text, named.pkcs12Password?.text ?? "")
        let certificate = read(named.certificatePath, "apns_cert_path", files) { Credential.fault(ofCertificates: $0) }
        var key: [UInt8]?
        if let keyPath = named.keyPath {
            key = read(keyPath, "apns_key_path", files) { Credential.fault(ofKey: $0, passphrase: keyPassword) }
        } else if let path = named.certificatePath, files.app != nil, let certificate {
            key = certificate
            if let error = Credential.fault(ofKey: certificate, passphrase: keyPassword) {
                report(error, "apns_key_path", path, files)
            }
        }
        let pkcs12 = read(named.pkcs12Path, "apns_p12_path", files) { Credential.fault(ofPKCS12: $0, password: pkcs12Password) }
        let signingKey = read(named.signingKeyPath, "apns_auth_key_path", files) { Credential.fault(ofSigningKey: $0) }

        var made: Credential?
        if findings.faults.count == before, files.faults.isEmpty, let app = files.app {
            made = make(app, certificate ?? pkcs12 ?? signingKey ?? [], key: key ?? [])
        }
        var facts = made?.certificate
        if let path = named.certificatePath, let certificate {
            facts = facts ?? Credential.facts(ofCertificates: certificate, keyPEM: key, passphrase: keyPassword)
            show(files, "apns_cert_path", path, facts)
        }
        if let path = named.pkcs12Path, let pkcs12 {
            facts = facts ?? Credential.facts(ofPKCS12: pkcs12, password: pkcs12Password)
            show(files, "apns_p12_path", path, facts)
        }
        return (made, facts)
    }

    /// - Parameter fault: checks the content of the file by itself.
    private mutating func read(
        _ path: String?, _ key: String, _ files: AppFiles, _ fault: ([UInt8]) -> CredentialError?
    ) -> [UInt8]? {
        guard let path, let bytes = findings.read(path, at: files.prefix + key) else { return nil }
        contents.combine(bytes)
        if let error = fault(bytes) { report(error, key, path, files) }
        return bytes
    }

    private mutating func make(_ app: Settings.App, _ bytes: [UInt8], key: [UInt8]) -> Credential? {
        do throws(CredentialError) {
            switch app.credential {
            case .certificate(_, _, let password):
                return try .certificate(certPEM: bytes, keyPEM: key, passphrase: password?.text, now: now)
            case .pkcs12(_, let password): return try .pkcs12(bytes, password: password?.text ?? "", now: now)
            case .signingKey(_, let keyID, let teamID):
                return try .signingKey(p8PEM: bytes, keyID: keyID, teamID: teamID, tokenFolder: stateFolder)
            }
        } catch {
            findings.fault(app.keyPrefix + app.credential.certificateKey, sentence: "\(app.credential.path): \(error)")
            return nil
        }
    }

    private mutating func report(_ error: CredentialError, _ key: String, _ path: String, _ files: AppFiles) {
        let problem = "\(path): \(error)"
        switch (key, error.part) {
        // The password of a faulty app may be its fault.
        case (_, .password) where files.app == nil || !files.faults.isEmpty: return
        case ("apns_key_path", .password):
            findings.fault(files.prefix + "apns_key_password", problem, expected: "the password of the private key")
        case ("apns_p12_path", .password):
            findings.fault(files.prefix + "apns_p12_password", problem, expected: "the password of the PKCS#12 file")
        default: findings.fault(files.prefix + key, sentence: problem)
        }
    }

    private mutating func show(_ files: AppFiles, _ key: String, _ path: String, _ facts: CertificateFacts?) {
        guard let facts else { return }
        show(SettingsErrors.Certificate(owner: .app(files.name), path: path, facts: facts), at: files.prefix + key)
    }

    /// Keeps what `check` shows of a certificate. A fault of its dates is reported beside all other faults.
    mutating func show(_ certificate: SettingsErrors.Certificate, at key: String) {
        certificates.append(certificate)
        guard let error = certificate.facts.faultOfDates(now: now) else { return }
        let fault = SettingsError(key: key, problem: "\(certificate.path): \(error)", remedy: "")
        if !findings.faults.contains(fault) { findings.fault(fault.key, sentence: fault.problem) }
    }

    private mutating func check(_ app: Settings.App, _ facts: CertificateFacts) {
        let topics = facts.allTopics
        if let topic = app.topic, !topics.isEmpty, !topics.contains(topic) {
            findings.fault(
                app.keyPrefix + "apns_topic", "\"\(topic)\" is not a topic of the certificate",
                expected: topics.joined(separator: " or "))
        }
        // A certificate of Apple may be valid for only one of the two hosts.
        let isSandbox = ["api.sandbox.push.apple.com", "api.development.push.apple.com"].contains(app.pool.host)
        if facts.isForDevelopment != facts.isForProduction, isSandbox || app.pool.host == "api.push.apple.com",
            isSandbox != facts.isForDevelopment
        {
            let right = facts.isForDevelopment ? "sandbox" : "production"
            findings.warn(
                app.keyPrefix + "apns_server", "\(app.pool.host) does not match the certificate, which is for the \(right) only",
                "set \"\(right)\", or use another certificate")
        }
        if CertificateExpiry(facts, now: now) != nil {
            findings.warn(
                app.keyPrefix + app.credential.certificateKey, CertificateExpiry.words(facts, now: now), CertificateExpiry.remedy)
        }
    }
}

extension CertificateFacts {
    /// The topics of the extension, and the UID.
    var allTopics: [String] {
        userID.map { topics.contains($0) ? topics : [$0] + topics } ?? topics
    }
}

extension Settings.CredentialSource {
    /// The key that names the credential.
    var certificateKey: String {
        switch self {
        case .certificate: "apns_cert_path"
        case .pkcs12: "apns_p12_path"
        case .signingKey: "apns_auth_key_path"
        }
    }

    fileprivate var path: String {
        switch self {
        case .certificate(let path, _, _), .pkcs12(let path, _), .signingKey(let path, _, _): path
        }
    }
}

/// The credential of one app, or why it cannot be used.
struct AppCredential: Sendable {
    /// `nil` if it cannot be used: the app is held.
    var credential: Credential?
    /// The part of the credential that a pool needs; `nil` without a credential. The files are read once for the check and the
    /// pool.
    var setup: SessionPool.Setup?
    /// For jobs that name none: `apns_topic`, else the topic of the certificate.
    var topic: String?
    /// The content of the client certificate, also of one that cannot be used; `nil` for a signing key, and if it cannot be read.
    var certificate: CertificateFacts?
    /// Why the credential cannot be used; empty if it can.
    var faults: [SettingsError] = []
    /// Whether the certificate cannot be read: it may have any topic.
    var hasUnknownTopics = false
    /// The content of all its files. Only values of one process are comparable.
    var digest = 0
}
