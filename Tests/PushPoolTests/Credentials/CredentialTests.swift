import Harness
import JSONBytes
import Platform
import Testing

@testable import PushPool

/// A folder for key and certificate files.
private final class Material {
    let directory = TemporaryFolder()
    var path: String { directory.path }

    func run(_ words: String...) throws { try Command.run(words) }

    func credentialFault(_ make: () throws -> Credential) -> String? {
        do {
            _ = try make()
            return nil
        } catch let error as CredentialError {
            return error.description
        } catch {
            return "another error: \(error)"
        }
    }
}

private let client = Certificates.shared.client

@Suite("A client certificate")
struct CertificateCredentialTests {
    private let material = Material()

    @Test func `it tells its topics, its dates and its environments`() throws {
        let credential = try Credential.certificate(certPEM: client.certificatesPEM, keyPEM: client.keyPEM)
        let facts = try #require(credential.certificate)
        #expect(facts.userID == "com.example.app")
        #expect(facts.topics == ["com.example.app", "com.example.app.voip", "com.example.app.complication"])
        #expect(facts.defaultTopic == "com.example.app")
        #expect(facts.isForDevelopment)
        #expect(facts.isForProduction)
        #expect(facts.subject.contains("CN = Apple Push Services: com.example.app"))
        #expect(facts.notAfter - facts.notBefore == 2 * 86_400)
        #expect(credential.tokens == nil)
    }

    @Test func `one without Apple's extensions says so`() throws {
        let server = Certificates.shared.server
        let credential = try Credential.certificate(certPEM: server.certificatesPEM, keyPEM: server.keyPEM)
        let facts = try #require(credential.certificate)
        #expect(facts.topics == [])
        #expect(facts.userID == nil)
        #expect(facts.defaultTopic == nil)
        #expect(!facts.isForDevelopment)
        #expect(!facts.isForProduction)
    }

    @Test func `certificate and key may be one text, the chain in any order`() throws {
        let all = Certificates.shared.rootPEM + client.certificatesPEM + client.keyPEM
        let credential = try Credential.certificate(certPEM: all, keyPEM: all)
        #expect(credential.certificate?.userID == "com.example.app")
        let chain = try Certificate.all(pem: credential.identity?.certificatesPEM ?? [])
        #expect(chain.map(\.facts.userID) == ["com.example.app", nil])
    }

    @Test func `a key that belongs to another certificate is refused`() {
        let fault = material.credentialFault {
            try .certificate(certPEM: client.certificatesPEM, keyPEM: Certificates.shared.server.keyPEM)
        }
        #expect(fault?.contains("does not belong to the certificate") == true)
    }

    @Test func `dates are looked at`() {
        let late = material.credentialFault {
            try .certificate(certPEM: client.certificatesPEM, keyPEM: client.keyPEM, now: 4_102_444_800)
        }
        #expect(late?.contains("expired on 20") == true)
        let early = material.credentialFault {
            try .certificate(certPEM: client.certificatesPEM, keyPEM: client.keyPEM, now: 1_000_000_000)
        }
        #expect(early?.contains("not valid before 20") == true)
    }

    @Test(arguments: ["PBE-MD5-DES", "PBE-SHA1-RC2-40", "PBE-SHA1-3DES"])
    func `a key in an old encryption is opened by its passphrase`(cipher: String) throws {
        material.directory.write(client.keyPEM, to: "plain.pem")
        let path = material.path
        try material.run(
            "openssl", "pkcs8", "-topk8", "-v1", cipher, "-provider", "legacy", "-provider", "default", "-in",
            "\(path)/plain.pem", "-out", "\(path)/locked.pem", "-passout", "pass:sesame")
        let locked = material.directory.read("locked.pem")
        #expect(Credential.fault(ofKey: locked, passphrase: "sesame") == nil)
        #expect(
            try Credential.certificate(certPEM: client.certificatesPEM, keyPEM: locked, passphrase: "sesame").certificate != nil)
        #expect(Credential.fault(ofKey: locked, passphrase: "open")?.description == "the private key's passphrase is wrong")
        #expect(Credential.fault(ofKey: locked, passphrase: nil)?.part == .password)
    }

    @Test(arguments: ["-des", "-des3", "-aes128"])
    func `a key in OpenSSL's own format is opened by its passphrase`(cipher: String) throws {
        let path = material.path
        try material.run("openssl", "genrsa", "-out", "\(path)/plain.pem", "2048")
        try material.run(
            "openssl", "rsa", "-traditional", cipher, "-provider", "legacy", "-provider", "default", "-in", "\(path)/plain.pem",
            "-out", "\(path)/locked.pem", "-passout", "pass:sesame")
        let locked = material.directory.read("locked.pem")
        #expect(String(decoding: locked, as: UTF8.self).contains("DEK-Info: "))
        #expect(Credential.fault(ofKey: locked, passphrase: "sesame") == nil)
        #expect(Credential.fault(ofKey: locked, passphrase: "open")?.description == "the private key's passphrase is wrong")
        #expect(Credential.fault(ofKey: locked, passphrase: nil)?.part == .password)
        // Blanks for line breaks.
        let joined = locked.map { $0 == UInt8(ascii: "\n") ? UInt8(ascii: " ") : $0 }
        #expect(Credential.fault(ofKey: joined, passphrase: "sesame") == nil)
        #expect(Credential.fault(ofKey: joined, passphrase: nil)?.part == .password)
    }

    @Test func `a cipher that OpenSSL lacks is named`() {
        let locked = """
            -----BEGIN RSA PRIVATE KEY-----
            Proc-Type: 4,ENCRYPTED
            DEK-Info: OLD-CIPHER-CBC,0102030405060708

            AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
            -----END RSA PRIVATE KEY-----

            """
        let fault = Credential.fault(ofKey: Array(locked.utf8), passphrase: "sesame")
        let problem = "the private key is encrypted with OLD-CIPHER-CBC, which OpenSSL does not support"
        #expect(fault?.description.hasPrefix(problem) == true)
        #expect(fault?.part == .privateKey)
    }

    @Test func `an encrypted key wants its passphrase`() throws {
        material.directory.write(client.keyPEM, to: "plain.pem")
        let path = material.path
        try material.run(
            "openssl", "pkcs8", "-topk8", "-in", "\(path)/plain.pem", "-out", "\(path)/locked.pem", "-passout", "pass:sesame")
        let locked = material.directory.read("locked.pem")
        func open(_ passphrase: String?) -> String? {
            material.credentialFault {
                try .certificate(certPEM: client.certificatesPEM, keyPEM: locked, passphrase: passphrase)
            }
        }
        #expect(open("sesame") == nil)
        #expect(open("open") == "the private key's passphrase is wrong")
        #expect(open("") == "the private key's passphrase is wrong")
        #expect(open(String(repeating: "x", count: 5000)) == "the private key's passphrase is wrong")
        #expect(open(nil) == "the private key is encrypted and no passphrase was given")
    }

    @Test(arguments: ["", "rubbish", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
    func `rubbish is refused`(text: String) {
        let bytes = Array(text.utf8)
        let noCertificate = material.credentialFault { try .certificate(certPEM: bytes, keyPEM: client.keyPEM) }
        #expect(noCertificate?.contains("no certificate found") == true)
        let noKey = material.credentialFault { try .certificate(certPEM: client.certificatesPEM, keyPEM: bytes) }
        #expect(noKey?.contains("no private key found") == true)
    }

    @Test func `nothing that is printed shows the key`() throws {
        let credential = try Credential.certificate(certPEM: client.certificatesPEM, keyPEM: client.keyPEM)
        var dumped = ""
        dump(credential, to: &dumped)
        for text in [dumped, "\(credential)", String(reflecting: credential), "\([credential])"] {
            #expect(!text.contains("PRIVATE"))
            #expect(!text.contains("45, 45, 45"))
        }
    }

    @Test func `the default topic and the days left of a certificate`() {
        var facts = CertificateFacts(
            subject: "", userID: nil, topics: ["a"], notBefore: 0, notAfter: 0, isForDevelopment: false,
            isForProduction: false)
        #expect(facts.defaultTopic == "a")
        facts.notAfter = 10 * 86_400
        #expect(facts.daysLeft(now: 0) == 10)
        #expect(facts.daysLeft(now: 10 * 86_400 + 1) == -1)
    }

    @Test(arguments: 0..<50) func `no bytes in the list of topics stop it`(round: Int) {
        var generator = SeededGenerator(seed: UInt64(round))
        for _ in 0..<200 {
            let count = Int.random(in: 0...40, using: &generator)
            var bytes = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
            if count > 2 { bytes.replaceSubrange(0..<2, with: [0x30, UInt8(count - 2)]) }
            #expect(Certificate.topics(inExtension: bytes).count <= 40)
        }
    }
}

@Suite("A PKCS#12 file")
struct PKCS12Tests {
    private let material = Material()

    private func export(_ options: [String] = [], hasChain: Bool = true, password: String = "sesame") throws -> [UInt8] {
        material.directory.write(client.certificatesPEM, to: "c.pem")
        material.directory.write(client.keyPEM, to: "k.pem")
        material.directory.write(Certificates.shared.rootPEM, to: "r.pem")
        let path = material.path
        try Command.run(
            [
                "openssl", "pkcs12", "-export", "-in", "\(path)/c.pem", "-inkey", "\(path)/k.pem", "-out", "\(path)/x.p12",
                "-passout", "pass:\(password)",
            ] + (hasChain ? ["-certfile", "\(path)/r.pem"] : []) + options)
        return material.directory.read("x.p12")
    }

    @Test func `one in today's ciphers opens`() throws {
        let credential = try Credential.pkcs12(try export(), password: "sesame")
        #expect(credential.certificate?.userID == "com.example.app")
        let pem = String(decoding: credential.identity?.certificatesPEM ?? [], as: UTF8.self)
        #expect(pem.split(separator: "-----BEGIN CERTIFICATE-----").count == 2)
    }

    @Test func `one as the Keychain writes it opens with the legacy provider`() throws {
        let file = try export(["-legacy", "-certpbe", "PBE-SHA1-RC2-40", "-keypbe", "PBE-SHA1-3DES"])
        let credential = try Credential.pkcs12(file, password: "sesame")
        #expect(credential.certificate?.userID == "com.example.app")
        // The identity serves a handshake, so the key came out whole.
        #expect(
            try Credential.certificate(
                certPEM: credential.identity?.certificatesPEM ?? [], keyPEM: credential.identity?.keyPEM ?? []
            ).certificate == credential.certificate)
        #expect(material.credentialFault { try .pkcs12(file, password: "open") } == "the PKCS#12 file's password is wrong")
    }

    @Test(arguments: [
        ["-certpbe", "PBE-SHA1-RC2-128", "-keypbe", "PBE-SHA1-RC2-128"],
        ["-certpbe", "PBE-SHA1-RC4-128", "-keypbe", "PBE-SHA1-RC4-128"],
        ["-certpbe", "PBE-SHA1-RC4-40", "-keypbe", "PBE-SHA1-3DES"], ["-nomac"],
        ["-certpbe", "PBE-SHA1-RC2-40", "-keypbe", "PBE-SHA1-RC2-40", "-nomac"],
    ])
    func `one in an old cipher or without a MAC opens`(options: [String]) throws {
        let file = try export(["-provider", "legacy", "-provider", "default"] + options, hasChain: false)
        #expect(try Credential.pkcs12(file, password: "sesame").certificate?.userID == "com.example.app")
        #expect(material.credentialFault { try .pkcs12(file, password: "open") } == "the PKCS#12 file's password is wrong")
        #expect(material.credentialFault { try .pkcs12(file, password: "") } == "the PKCS#12 file's password is wrong")
    }

    @Test func `one in base64 opens, and another file is named`() throws {
        let text = Base64.encode(try export())
        #expect(try Credential.pkcs12(text, password: "sesame").certificate?.userID == "com.example.app")
        #expect(
            material.credentialFault { try .pkcs12(client.certificatesPEM, password: "") }
                == "not a PKCS#12 file, but a certificate; expected a .p12 file as the Keychain exports it")
    }

    @Test func `one without a password opens`() throws {
        #expect(try Credential.pkcs12(try export(password: ""), password: "").certificate != nil)
    }

    @Test func `a wrong password, a damaged file and a missing key cause different errors`() throws {
        let file = try export()
        #expect(material.credentialFault { try .pkcs12(file, password: "open") } == "the PKCS#12 file's password is wrong")
        #expect(
            material.credentialFault { try .pkcs12(Array(file.prefix(100)), password: "sesame") }
                == "not a PKCS#12 file, or damaged; expected a .p12 file as the Keychain exports it")
        #expect(
            material.credentialFault { try .pkcs12([], password: "") }
                == "not a PKCS#12 file, or damaged; expected a .p12 file as the Keychain exports it")
        #expect(material.credentialFault { try .pkcs12(try export(["-nokeys"]), password: "sesame") }?.contains("lacks") == true)
    }
}

@Suite("A signing key")
struct SigningKeyTests {
    private let material = Material()
    private let key = Certificates.shared.signingKeyPEM

    @Test func `its names have ten letters and digits`() {
        func fault(_ keyID: String, _ teamID: String) -> String? {
            material.credentialFault { try .signingKey(p8PEM: key, keyID: keyID, teamID: teamID) }
        }
        #expect(fault("ABCDE12345", "TEAM567890") == nil)
        #expect(fault("ABCDE1234", "TEAM567890")?.contains("key ID of 9 characters is invalid; expected 10") == true)
        #expect(fault("ABCDE12345", "TEAM5678901")?.contains("team ID of 11 characters is invalid; expected 10") == true)
        #expect(fault("ABCDE\"1234", "TEAM567890")?.contains("key ID") == true)
        #expect(fault("ABCDEé123", "TEAM567890")?.contains("key ID") == true)
    }

    @Test(arguments: [
        ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"], ["-algorithm", "ED25519"], ["-algorithm", "RSA"],
    ])
    func `another kind of key is refused`(options: [String]) throws {
        try Command.run(["openssl", "genpkey", "-out", "\(material.path)/k"] + options)
        let other = material.directory.read("k")
        let fault = material.credentialFault { try .signingKey(p8PEM: other, keyID: "ABCDE12345", teamID: "TEAM567890") }
        #expect(fault?.contains("P-256") == true)
    }

    @Test func `it has no certificate, and one token for all who use it`() throws {
        let first = try Credential.signingKey(p8PEM: key, keyID: "ABCDE12345", teamID: "TEAM567890")
        let second = try Credential.signingKey(p8PEM: key, keyID: "ABCDE12345", teamID: "TEAM567890")
        let other = try Credential.signingKey(p8PEM: key, keyID: "ABCDE12345", teamID: "TEAM567891")
        #expect(first.certificate == nil)
        #expect(first.tokens === second.tokens)
        #expect(first.tokens !== other.tokens)
        #expect("\(first)" == "signing key ABCDE12345 of team TEAM567890")
    }
}
