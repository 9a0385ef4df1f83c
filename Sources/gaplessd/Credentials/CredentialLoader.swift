import Glibc
import PushPool
import Sockets

/// Reads the key files of apps and checks all that can be checked without asking Apple. Collects every fault on the way.
struct CredentialLoader {
    /// A key file is some kilobytes; a bundle of roots some hundred.
    private static let mostBytes = 4 << 20

    /// Unix seconds.
    let now: Int64
    /// Where provider tokens are kept.
    let stateFolder: String?
    private(set) var faults: [SettingsError] = []
    private(set) var warnings: [SettingsError] = []
    /// By the path of `apns_ca_path`: to read roots is most of what a start takes, and apps share them as a rule.
    private(set) var roots: [String?: TLSRoots] = [:]
    /// Where an `apns_ca_path` stands that was looked at: apps that share one share its fault, which is told once.
    private var seenRoots: Set<String> = []
    /// All that could be read, be they good for anything or not.
    private(set) var certificates: [SeenCertificate] = []

    init(now: Int64, stateFolder: String?) {
        self.now = now
        self.stateFolder = stateFolder
    }

    /// One for each app, in order; fewer only where faults were found.
    mutating func load(_ apps: [Settings.App]) -> [AppCredential] {
        let loaded = apps.compactMap { load($0) }
        for (index, app) in loaded.enumerated() where loaded.count == apps.count {
            guard let twin = loaded[..<index].firstIndex(where: { $0.topic != nil && $0.topic == app.topic }) else { continue }
            warn(
                apps[index], "apns_topic", "is \"\(app.topic ?? "")\", as that of \(apps[twin].words)",
                "a job that names this topic and no app goes to \(apps[twin].words)")
        }
        return loaded
    }

    /// The key files of apps in whose settings something is wrong: each is looked at by itself.
    mutating func look(at files: [Settings.LooseFiles]) {
        for loose in files {
            var contents: [String: [UInt8]] = [:]
            for file in loose.files where file.key != "apns_ca_path" || seenRoots.insert(file.place).inserted {
                contents[file.key] = read(file.path, file.place)
                guard let bytes = contents[file.key], let error = loose.fault(of: bytes, at: file.key) else { continue }
                faults.append(SettingsError(key: file.place, problem: "\(file.path): \(error)", remedy: ""))
            }
            for file in loose.files { see(loose.app, file.place, file.path, loose.certificate(in: contents, at: file.key)) }
        }
    }

    /// What is wrong, and what could be read all the same.
    func refusal(_ file: String, _ faults: [SettingsError]) -> SettingsErrors {
        SettingsErrors(file: file, faults: faults, certificates: certificates)
    }

    /// - Parameter key: which names the file, with its app.
    private mutating func see(_ app: String?, _ key: String, _ path: String, _ facts: CertificateFacts?) {
        guard let facts else { return }
        certificates.append(SeenCertificate(app: app, path: path, facts: facts))
        // A fault of the key, or of the settings, hides none of the dates; where nothing hid it, it has been told.
        guard let error = facts.faultOfDates(now: now) else { return }
        let fault = SettingsError(key: key, problem: "\(path): \(error)", remedy: "")
        if !faults.contains(fault) { faults.append(fault) }
    }

    private mutating func load(_ app: Settings.App) -> AppCredential? {
        let before = faults.count
        let roots = roots(app)
        let credential = credential(app)
        if let facts = credential?.certificate {
            checkTopic(app, facts)
            checkEnvironment(app, facts)
            checkEnd(app, facts)
        }
        guard faults.count == before, let credential, let roots, let setup = setup(app, credential, roots) else { return nil }
        let topic = app.topic ?? credential.certificate?.defaultTopic
        if topic == nil {
            warn(app, "apns_topic", "is missing", "each job must then name its topic")
        }
        return AppCredential(credential: credential, topic: topic, setup: setup)
    }

    private mutating func credential(_ app: Settings.App) -> Credential? {
        let (now, stateFolder) = (now, stateFolder)
        switch app.credential {
        case .certificate(let path, let keyPath, let password):
            let found = faults.count
            let pair = pair(app, path, keyPath, password)
            guard let certificate = pair.certificate else { return nil }
            var made: Credential?
            if faults.count == found, let key = pair.key {
                made = make(app, "apns_cert_path", path) { () throws(CredentialError) in
                    try .certificate(certPEM: certificate, keyPEM: key, passphrase: password?.text, now: now)
                }
            }
            let facts =
                made?.certificate
                ?? Credential.facts(ofCertificates: certificate, keyPEM: pair.key, passphrase: password?.text)
            see(app.name, app.keyPrefix + "apns_cert_path", path, facts)
            return made
        case .pkcs12(let path, let password):
            guard let bytes = read(path, app, "apns_p12_path") else { return nil }
            let made = make(app, "apns_p12_path", path) { () throws(CredentialError) in
                try .pkcs12(bytes, password: password?.text ?? "", now: now)
            }
            let facts = made?.certificate ?? Credential.facts(ofPKCS12: bytes, password: password?.text ?? "")
            see(app.name, app.keyPrefix + "apns_p12_path", path, facts)
            return made
        case .signingKey(let path, let keyID, let teamID):
            guard let bytes = read(path, app, "apns_auth_key_path") else { return nil }
            return make(app, "apns_auth_key_path", path) { () throws(CredentialError) in
                try .signingKey(p8PEM: bytes, keyID: keyID, teamID: teamID, tokenFolder: stateFolder)
            }
        }
    }

    /// What could be read of both files, each looked at by itself so that neither's fault hides the other's.
    private mutating func pair(
        _ app: Settings.App, _ path: String, _ keyPath: String?, _ password: Secret?
    ) -> (certificate: [UInt8]?, key: [UInt8]?) {
        let certificate = read(path, app, "apns_cert_path")
        if let certificate, let error = Credential.fault(ofCertificates: certificate) { tell(error, app, "apns_cert_path", path) }
        let key = keyPath == nil || keyPath == path ? certificate : read(keyPath ?? path, app, "apns_key_path")
        if let key, let error = Credential.fault(ofKey: key, passphrase: password?.text) {
            tell(error, app, "apns_key_path", path)
        }
        return (certificate, key)
    }

    private mutating func make(
        _ app: Settings.App, _ key: String, _ path: String, _ body: () throws(CredentialError) -> Credential
    ) -> Credential? {
        do {
            return try body()
        } catch {
            tell(error, app, key, path)
            return nil
        }
    }

    private mutating func tell(_ error: CredentialError, _ app: Settings.App, _ key: String, _ path: String) {
        let at = app.credential.place(of: error.part) ?? (key: key, path: path, remedy: "")
        fault(app, at.key, "\(at.path): \(error)", at.remedy)
    }

    private mutating func read(_ path: String, _ app: Settings.App, _ key: String) -> [UInt8]? {
        read(path, app.keyPrefix + key)
    }

    private mutating func read(_ path: String, _ key: String) -> [UInt8]? {
        do {
            return try FileBytes.read(path, atMost: Self.mostBytes)
        } catch {
            let problem = "\(path) cannot be read: \(error)"
            faults.append(SettingsError(key: key, problem: problem, remedy: "a file that this user may read would be right"))
            return nil
        }
    }

    /// `nil` where there is a fault.
    private mutating func roots(_ app: Settings.App) -> TLSRoots? {
        let path = app.pool.extraRootsPath
        if let known = roots[path] { return known }
        guard seenRoots.insert(app.rootsKey).inserted else { return nil }
        if let path, read(path, app.rootsKey) == nil { return nil }
        do {
            let new = try TLSRoots(bundle: path)
            roots[path] = new
            return new
        } catch {
            let problem = "\(path ?? "the system's bundle") holds no certificates"
            faults.append(SettingsError(key: app.rootsKey, problem: problem, remedy: "a PEM bundle of roots would be right"))
            return nil
        }
    }

    /// TLS has demands of its own, on the size of keys for one.
    private mutating func setup(_ app: Settings.App, _ credential: Credential, _ roots: TLSRoots?) -> SessionPool.Setup? {
        do {
            return try SessionPool.Setup(settings: app.pool, credential: credential, roots: roots)
        } catch {
            fault(app, app.credential.certificateKey, "cannot be used: \(error)", "another one would be right")
            return nil
        }
    }

    private mutating func checkTopic(_ app: Settings.App, _ facts: CertificateFacts) {
        let topics = facts.allTopics
        guard let topic = app.topic, !topics.isEmpty, !topics.contains(topic) else { return }
        fault(
            app, "apns_topic", "is \"\(topic)\", which is not a topic of the certificate",
            "\(topics.joined(separator: " or ")) would be right")
    }

    /// Apple's certificates say which of its two hosts they are for; others say nothing.
    private mutating func checkEnvironment(_ app: Settings.App, _ facts: CertificateFacts) {
        guard facts.isForDevelopment != facts.isForProduction else { return }
        let isSandbox = ["api.sandbox.push.apple.com", "api.development.push.apple.com"].contains(app.pool.host)
        guard isSandbox || app.pool.host == "api.push.apple.com", isSandbox != facts.isForDevelopment else { return }
        let right = facts.isForDevelopment ? "sandbox" : "production"
        warn(
            app, "apns_server", "is \(app.pool.host), and the certificate is for the \(right) alone",
            "\"\(right)\", or another certificate, would be right")
    }

    private mutating func checkEnd(_ app: Settings.App, _ facts: CertificateFacts) {
        guard CertificateEnd(facts, now: now) != nil else { return }
        warn(app, app.credential.certificateKey, CertificateEnd.words(facts, now: now), CertificateEnd.remedy)
    }

    private mutating func fault(_ app: Settings.App, _ key: String, _ problem: String, _ remedy: String = "") {
        faults.append(SettingsError(key: app.keyPrefix + key, problem: problem, remedy: remedy))
    }

    private mutating func warn(_ app: Settings.App, _ key: String, _ problem: String, _ remedy: String) {
        warnings.append(SettingsError(key: app.keyPrefix + key, problem: problem, remedy: remedy))
    }
}

extension CertificateFacts {
    /// Every topic that it is for: those of its extension, and its UID.
    var allTopics: [String] {
        userID.map { topics.contains($0) ? topics : [$0] + topics } ?? topics
    }
}

extension Settings.App {
    /// In a sentence.
    var words: String { name.map { "app \"\($0)\"" } ?? "the top level" }
}

extension Settings.CredentialSource {
    /// The key that a part of the credential comes by, the file that it is in or for, and what would be right there; `nil` where
    /// it comes by the credential's main key.
    fileprivate func place(of part: CredentialError.Part) -> (key: String, path: String, remedy: String)? {
        switch (self, part) {
        case (.certificate(let path, let keyPath, _), .password):
            ("apns_key_password", keyPath ?? path, "the password that the private key was locked with would be right")
        case (.pkcs12(let path, _), .password):
            ("apns_p12_password", path, "the password that the file was exported with would be right")
        case (.certificate(let path, nil, _), .privateKey):
            ("apns_key_path", path, "the path of the private key would be right, where the certificate's file does not hold both")
        case (.certificate(_, let keyPath?, _), .privateKey): ("apns_key_path", keyPath, "")
        case (.signingKey, _), (.pkcs12, _), (.certificate, .whole): nil
        }
    }

    var certificateKey: String {
        switch self {
        case .certificate: "apns_cert_path"
        case .pkcs12: "apns_p12_path"
        case .signingKey: "apns_auth_key_path"
        }
    }
}
