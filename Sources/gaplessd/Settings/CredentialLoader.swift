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
    private(set) var roots: [String?: Roots]
    /// The places of `apns_ca_path` that were read. Apps that share one share its fault, which is reported once.
    private var readRoots: Set<String> = []
    private var faultsOfRoots: [String: SettingsError] = [:]
    /// The content of the files of the app that is read now.
    private var contents = Hasher()
    /// Every certificate that is readable.
    private(set) var certificates: [SettingsErrors.Certificate] = []

    /// Root certificates, and the file from which they were read.
    struct Roots {
        /// `nil` after a fault.
        fileprivate var roots: TLSRoots?
        fileprivate var digest: Int?
        fileprivate var stamp: FileStamp?

        fileprivate func areCurrent(at path: String?) -> Bool {
            guard let path else { return roots != nil }
            return roots != nil && stamp != nil && stamp == FileStamp(path: path)
        }
    }

    /// - Parameter known: those of an earlier loader. Changed files are read again.
    init(now: Int64, stateFolder: String?, roots known: [String?: Roots] = [:]) {
        (self.now, self.stateFolder) = (now, stateFolder)
        roots = known.filter { $1.areCurrent(at: $0) }
    }

    /// Reads the files of all apps. An app whose keys are incomplete, or whose files have a fault, gets no credential.
    ///
    /// - Parameter known: apps that were read before.
    mutating func load(_ apps: inout [Settings.App], known: [Settings.App] = []) {
        let known = Dictionary(known.map { ($0.name, $0) }) { first, _ in first }
        for index in apps.indices { load(&apps[index], known: known[apps[index].name]) }
        var first: [String: Int] = [:]
        for (index, app) in apps.enumerated() {
            guard let topic = app.defaultTopic else { continue }
            guard let twin = first[topic].map({ apps[$0] }) else {
                first[topic] = index
                continue
            }
            findings.file = app.file
            let other = twin.name.map { "app \"\($0)\"" } ?? "the top level"
            findings.warn(
                app.keyPrefix + "apns_topic", "\"\(topic)\" is the topic of \(other) as well",
                "a job that names this topic and no app goes to \(other)")
        }
    }

    /// Returns the content of the app's certificate; `nil` for a signing key, which is not read, and after a fault. Checks
    /// neither the dates nor the key.
    mutating func facts(_ app: Settings.App) -> CertificateFacts? {
        let before = findings.faults.count
        findings.file = app.file
        let keys = app.keys
        let (keyPassword, pkcs12Password) = (keys.keyPassword?.text, keys.pkcs12Password?.text ?? "")
        let certificate = read(keys.certificatePath, "apns_cert_path", app) { Credential.fault(ofCertificates: $0) }
        let pkcs12 = read(keys.pkcs12Path, "apns_p12_path", app) { Credential.fault(ofPKCS12: $0, password: pkcs12Password) }
        guard findings.faults.count == before else { return nil }
        // A key in the same file identifies the app's own certificate.
        let key = keys.keyPath == nil ? certificate : nil
        return certificate.flatMap { Credential.facts(ofCertificates: $0, keyPEM: key, passphrase: keyPassword) }
            ?? pkcs12.flatMap { Credential.facts(ofPKCS12: $0, password: pkcs12Password) }
    }

    /// Reads the files of one app.
    ///
    /// - Parameter known: the same app, if it was read before.
    mutating func load(_ app: inout Settings.App, known: Settings.App? = nil) {
        let before = findings.faults.count
        findings.file = app.file
        contents = Hasher()
        app.stamps = FileStamp.stamps(of: app.files)
        if let known, isUnchanged(app, known) {
            (app.credential, app.setup, app.certificate) = (known.credential, known.setup, known.certificate)
            app.digest = known.digest
            warnWithoutTopic(app)
            return
        }
        for fault in app.faults { findings.fault(fault) }
        let roots = roots(app)
        let credential = faultless(&app) ?? credential(&app)
        guard let source = app.source else { return }
        if let facts = credential?.certificate { check(app, source, facts) }
        app.digest = contents.finalize()
        if findings.faults.count == before, let credential, let roots {
            do {
                var pool = app.pool
                pool.topic = app.defaultTopic
                app.setup = try SessionPool.Setup(settings: pool, credential: credential, roots: roots)
                app.credential = credential
            } catch {
                // TLS has demands of its own, for example on the size of keys.
                findings.fault(app.keyPrefix + source.key, "cannot be used: \(error)", expected: "another credential")
            }
        }
        app.faults = Array(findings.faults[before...])
        guard app.credential != nil else {
            if app.faults.isEmpty, let fault = faultsOfRoots[app.placeOfRoots] { app.faults = [fault] }
            return
        }
        warnWithoutTopic(app)
    }

    private mutating func warnWithoutTopic(_ app: Settings.App) {
        if app.defaultTopic != nil { return }
        findings.warn(app.keyPrefix + "apns_topic", "no default topic", "each job must name its topic")
    }

    /// Whether the app has the keys and the files with which it was read before, and its certificate causes no warning.
    private func isUnchanged(_ app: Settings.App, _ known: Settings.App) -> Bool {
        guard known.credential != nil, known.faults.isEmpty, app.faults.isEmpty, app.source == known.source,
            app.topic == known.topic, app.pool == known.pool, app.file == known.file, app.stamps == known.stamps,
            app.stamps.count == app.files.count
        else { return false }
        return known.certificate.map { CertificateExpiry($0, now: now) == nil } ?? true
    }

    /// `nil` after a fault, and without a bundle for a faulty app.
    private mutating func roots(_ app: Settings.App) -> TLSRoots? {
        let path = app.pool.extraRootsPath
        // An inherited key is that of the settings file.
        findings.file = app.ownsRoots ? app.file : nil
        defer {
            findings.file = app.file
            if let path { contents.combine(roots[path]?.digest) }
        }
        if let known = roots[path]?.roots { return known }
        guard path != nil || app.source != nil, readRoots.insert(app.placeOfRoots).inserted else { return nil }
        let before = findings.faults.count
        defer { if findings.faults.count > before { faultsOfRoots[app.placeOfRoots] = findings.faults.last } }
        var new = Roots()
        if let path {
            new.stamp = FileStamp(path: path)
            guard let bytes = findings.read(path, at: app.rootsKey) else { return nil }
            new.digest = bytes.hashValue
            new.roots = try? TLSRoots(pem: CredentialFile(bytes).pem)
        } else {
            new.roots = try? TLSRoots(bundle: nil)
        }
        roots[path] = new
        if new.roots == nil {
            findings.fault(
                app.rootsKey, "\(path ?? "the system's bundle") contains no certificates",
                expected: "a PEM bundle of root certificates")
        }
        return new.roots
    }

    /// Makes the credential of an app from files that are read and parsed once; `nil` if there is a fault, which `credential`
    /// finds. Parsing takes most of the start of thousands of apps.
    private mutating func faultless(_ app: inout Settings.App) -> Credential? {
        guard app.faults.isEmpty, let source = app.source else { return nil }
        let (path, keyPath): (String, String?) =
            switch source {
            case .certificate(let path, let keyPath, _): (path, keyPath)
            case .pkcs12(let path, _), .signingKey(let path, _, _): (path, nil)
            }
        var unread = SettingsFindings()
        guard let bytes = unread.read(path, at: ""), let keyBytes = keyPath == nil ? bytes : unread.read(keyPath ?? "", at: ""),
            let made = try? make(source, bytes, key: keyBytes)
        else { return nil }
        contents.combine(bytes)
        if keyPath != nil { contents.combine(keyBytes) }
        if let facts = made.certificate { show(&app, source.key, path, facts) } else { app.certificate = nil }
        return made
    }

    /// Checks each file, then makes the credential of a faultless app. The app gets the facts of a readable certificate in any
    /// case.
    private mutating func credential(_ app: inout Settings.App) -> Credential? {
        let before = findings.faults.count
        let keys = app.keys
        let (keyPassword, pkcs12Password) = (keys.keyPassword?.text, keys.pkcs12Password?.text ?? "")
        if reportSwap(keys, app) { return nil }
        let certificate = read(keys.certificatePath, "apns_cert_path", app) { Credential.fault(ofCertificates: $0) }
        var key: [UInt8]?
        if let keyPath = keys.keyPath {
            key = read(keyPath, "apns_key_path", app) { Credential.fault(ofKey: $0, passphrase: keyPassword) }
        } else if let path = keys.certificatePath, app.source != nil, let certificate {
            key = certificate
            if let error = Credential.fault(ofKey: certificate, passphrase: keyPassword) {
                report(error, "apns_key_path", path, app)
            }
        }
        let pkcs12 = read(keys.pkcs12Path, "apns_p12_path", app) { Credential.fault(ofPKCS12: $0, password: pkcs12Password) }
        let signingKey = read(keys.signingKeyPath, "apns_auth_key_path", app) { Credential.fault(ofSigningKey: $0) }

        var made: Credential?
        if findings.faults.count == before, app.faults.isEmpty, let source = app.source {
            do throws(CredentialError) {
                made = try make(source, certificate ?? pkcs12 ?? signingKey ?? [], key: key ?? [])
            } catch {
                let path = keys.certificatePath ?? keys.pkcs12Path ?? keys.signingKeyPath ?? ""
                findings.fault(app.keyPrefix + source.key, sentence: "\(path): \(error)")
            }
        }
        app.certificate = made?.certificate
        if let path = keys.certificatePath, let certificate {
            let facts = app.certificate ?? Credential.facts(ofCertificates: certificate, keyPEM: key, passphrase: keyPassword)
            show(&app, "apns_cert_path", path, facts)
        }
        if let path = keys.pkcs12Path, let pkcs12 {
            let facts = app.certificate ?? Credential.facts(ofPKCS12: pkcs12, password: pkcs12Password)
            show(&app, "apns_p12_path", path, facts)
        }
        return made
    }

    /// Reports a certificate and a key in each other's place. Returns whether it did.
    private mutating func reportSwap(_ keys: Settings.CredentialKeys, _ app: Settings.App) -> Bool {
        guard let certificate = keys.certificatePath, let key = keys.keyPath, isOnly(.privateKey, certificate),
            isOnly(.certificate, key)
        else { return false }
        findings.fault(
            app.keyPrefix + "apns_cert_path", "the certificate and the key are swapped",
            expected: "apns_cert_path: \(key), apns_key_path: \(certificate)")
        return true
    }

    private func isOnly(_ content: CredentialFile.Content, _ path: String) -> Bool {
        var findings = SettingsFindings()
        return findings.read(path, at: "").map { CredentialFile($0).isOnly(content) } ?? false
    }

    /// - Parameter fault: checks the content of the file by itself.
    private mutating func read(
        _ path: String?, _ key: String, _ app: Settings.App, _ fault: ([UInt8]) -> CredentialError?
    ) -> [UInt8]? {
        guard let path, let bytes = findings.read(path, at: app.keyPrefix + key) else { return nil }
        contents.combine(bytes)
        if let error = fault(bytes) { report(error, key, path, app) }
        return bytes
    }

    private func make(
        _ source: Settings.CredentialSource, _ bytes: [UInt8], key: [UInt8]
    ) throws(CredentialError) -> Credential {
        switch source {
        case .certificate(_, _, let password):
            try .certificate(certPEM: bytes, keyPEM: key, passphrase: password?.text, now: now)
        case .pkcs12(_, let password): try .pkcs12(bytes, password: password?.text ?? "", now: now)
        case .signingKey(_, let keyID, let teamID):
            try .signingKey(p8PEM: bytes, keyID: keyID, teamID: teamID, tokenFolder: stateFolder)
        }
    }

    private mutating func report(_ error: CredentialError, _ key: String, _ path: String, _ app: Settings.App) {
        let problem = "\(path): \(error)"
        switch (key, error.part) {
        // The password of a faulty app may be its fault.
        case (_, .password) where app.source == nil || !app.faults.isEmpty: return
        case ("apns_key_path", .password):
            findings.fault(app.keyPrefix + "apns_key_password", problem, expected: "the password of the private key")
        case ("apns_p12_path", .password):
            findings.fault(app.keyPrefix + "apns_p12_password", problem, expected: "the password of the PKCS#12 file")
        default:
            findings.fault(app.keyPrefix + key, sentence: problem + (Self.place(of: error.contents, insteadOf: key) ?? ""))
        }
    }

    /// Names the key of a file with this content; `nil` where the message says enough.
    private static func place(of contents: [CredentialFile.Content], insteadOf key: String) -> String? {
        switch (key, contents.first) {
        case ("apns_cert_path", .pkcs12), ("apns_auth_key_path", .pkcs12), ("apns_key_path", .pkcs12):
            " (a PKCS#12 file belongs in apns_p12_path)"
        case ("apns_cert_path", .privateKey): " (a signing key from Apple, AuthKey_….p8, belongs in apns_auth_key_path)"
        case ("apns_p12_path", .certificate), ("apns_auth_key_path", .certificate):
            " (a certificate belongs in apns_cert_path)"
        case ("apns_p12_path", .privateKey): " (a signing key from Apple, AuthKey_….p8, belongs in apns_auth_key_path)"
        default: nil
        }
    }

    private mutating func show(_ app: inout Settings.App, _ key: String, _ path: String, _ facts: CertificateFacts?) {
        app.certificate = facts
        guard let facts else { return }
        show(SettingsErrors.Certificate(owner: .app(app.name), path: path, facts: facts), at: app.keyPrefix + key)
    }

    /// Keeps what `check` shows of a certificate. A fault of its dates is reported beside all other faults.
    mutating func show(_ certificate: SettingsErrors.Certificate, at key: String) {
        certificates.append(certificate)
        guard let error = certificate.facts.faultOfDates(now: now) else { return }
        let fault = SettingsError(key: key, problem: "\(certificate.path): \(error)", remedy: "", file: findings.file)
        if !findings.faults.contains(fault) { findings.fault(fault) }
    }

    private mutating func check(_ app: Settings.App, _ source: Settings.CredentialSource, _ facts: CertificateFacts) {
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
            findings.warn(app.keyPrefix + source.key, CertificateExpiry.words(facts, now: now), CertificateExpiry.remedy)
        }
    }
}

extension Settings.App {
    /// The object of the settings that has `apns_ca_path`.
    fileprivate var placeOfRoots: String { (ownsRoots ? file ?? "" : "") + "\0" + rootsKey }
}

extension CertificateFacts {
    /// The topics of the extension, and the UID.
    var allTopics: [String] {
        userID.map { topics.contains($0) ? topics : [$0] + topics } ?? topics
    }
}
