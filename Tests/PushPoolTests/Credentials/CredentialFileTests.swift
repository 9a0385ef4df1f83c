import Harness
import JSONBytes
import Platform
import Testing

@testable import PushPool

private let client = Certificates.shared.client

@Suite("A key file that an editor, a shell or a secret store has changed")
struct CredentialFileTests {
    /// Changes that leave no doubt about the content.
    enum Change: String, CaseIterable, Sendable {
        case escapedBreaks, escapedWindowsBreaks, blanks, windowsBreaks, oldMacBreaks, indented, quoted, singleQuoted
        case byteOrderMark, base64, wrappedBase64, oneLine, blankLines, quotedLines

        func apply(_ pem: [UInt8]) -> [UInt8] {
            let text = String(decoding: pem, as: UTF8.self)
            let lines = text.split(separator: "\n")
            let changed: String =
                switch self {
                case .escapedBreaks: text.replacing("\n", with: "\\n")
                case .escapedWindowsBreaks: text.replacing("\n", with: "\\r\\n")
                case .blanks: text.replacing("\n", with: " ")
                case .windowsBreaks: text.replacing("\n", with: "\r\n")
                case .oldMacBreaks: text.replacing("\n", with: "\r")
                case .indented: lines.map { "    \($0)\n" }.joined()
                case .quoted: "\"\(text.replacing("\n", with: "\\n"))\"\n"
                case .singleQuoted: "'\(text)'"
                case .byteOrderMark: "\u{FEFF}" + text
                case .base64: String(decoding: Base64.encode(pem), as: UTF8.self) + "\n"
                case .wrappedBase64:
                    String(decoding: Base64.encode(pem), as: UTF8.self).enumerated().map { place, digit in
                        place % 76 == 75 ? "\(digit)\n" : "\(digit)"
                    }.joined()
                case .oneLine: text.replacing("\n", with: "")
                case .blankLines: text.replacing("\n", with: "\n\n")
                case .quotedLines: lines.map { "\"\($0)\"\n" }.joined()
                }
            return Array(changed.utf8)
        }
    }

    @Test(arguments: Change.allCases)
    func `a certificate, a chain and a key are read`(change: Change) throws {
        let chain = client.certificatesPEM + Certificates.shared.rootPEM
        for pem in [client.certificatesPEM, chain] {
            let facts = try Certificate.all(pem: pem).map(\.facts)
            #expect(try Certificate.all(pem: change.apply(pem)).map(\.facts) == facts)
        }
        let changed = change.apply(client.keyPEM)
        #expect(try Credential.certificate(certPEM: change.apply(chain), keyPEM: changed).certificate != nil)
        let signing = Certificates.shared.signingKeyPEM
        let key = try SigningKey(p8PEM: change.apply(signing), keyID: "ABCDE12345", teamID: "TEAM567890")
        #expect(try key.fingerprint == SigningKey(p8PEM: signing, keyID: "ABCDE12345", teamID: "TEAM567890").fingerprint)
        // One file with both.
        let both = change.apply(client.keyPEM + chain)
        #expect(try Credential.certificate(certPEM: both, keyPEM: both).certificate != nil)
    }

    @Test func `joined blocks are read, each of them`() throws {
        let text = String(decoding: client.certificatesPEM + Certificates.shared.rootPEM + client.keyPEM, as: UTF8.self)
        let joined = Array(text.replacing("-----\n-----", with: "----------").utf8)
        #expect(try Certificate.all(pem: joined).count == 2)
        #expect(Credential.fault(ofKey: joined, passphrase: nil) == nil)
    }

    /// The bytes of the first block.
    private func der(_ pem: [UInt8]) throws -> [UInt8] {
        let lines = String(decoding: pem, as: UTF8.self).split(separator: "\n")
        let body = lines.drop { !$0.hasPrefix("-----BEGIN") }.dropFirst().prefix { !$0.hasPrefix("-----END") }
        return try #require(Base64.decode(Array(body.joined().utf8)))
    }

    @Test func `DER is read, and its base64 without BEGIN and END`() throws {
        let folder = TemporaryFolder()
        folder.write(Certificates.shared.signingKeyPEM, to: "key.pem")
        let path = folder.path
        for words in [
            ["pkcs8", "-topk8", "-nocrypt", "-outform", "DER"], ["ec", "-outform", "DER"],
            ["pkcs8", "-topk8", "-outform", "DER", "-passout", "pass:sesame"],
        ] {
            try Command.run(["openssl"] + words + ["-in", "\(path)/key.pem", "-out", "\(path)/key.der"])
            for bytes in [folder.read("key.der"), Base64.encode(folder.read("key.der"))] {
                #expect(Credential.fault(ofKey: bytes, passphrase: "sesame") == nil, "\(words)")
            }
        }
        let certificate = try der(client.certificatesPEM)
        for bytes in [certificate, Base64.encode(certificate)] {
            #expect(try Certificate.all(pem: bytes).map(\.facts.userID) == ["com.example.app"])
        }
    }

    @Test(arguments: [
        ("", ": the file is empty"), (" \n", ": the file is empty"),
        ("<html><body>Log in</body></html>", ": the file is a page in HTML or XML"),
        ("-----BEGIN PRIVATE KEY-----\nMIGH", ": the text ends before the line END PRIVATE KEY"),
        (
            "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----",
            ": there is nothing between BEGIN PRIVATE KEY and END PRIVATE KEY"
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIGH…SECRET\n-----END PRIVATE KEY-----",
            ": the text between BEGIN PRIVATE KEY and END PRIVATE KEY is not base64"
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIGHSECRE\n-----END PRIVATE KEY-----",
            ": the text between BEGIN PRIVATE KEY and END PRIVATE KEY is incomplete"
        ),
        (
            "-----BEGIN PRIVATE KEY-----\nMIGHSECR\n-----END PRIVATE KEY----",
            ": the line END PRIVATE KEY is missing or incomplete"
        ),
        (
            "—–BEGIN PRIVATE KEY—–\nMIGHSECR\n—–END PRIVATE KEY—–",
            ": the lines BEGIN and END have other dashes than five hyphens at each end"
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIGHSECR\n-----END PRIVATE KEY-----", ": its content is damaged, or of an unknown kind"),
        ("-----BEGIN PUBLIC KEY-----\nMIGHSECR\n-----END PUBLIC KEY-----", ", but a public key"),
        (
            "-----BEGIN CERTIFICATE REQUEST-----\nMIGHSECR\n-----END CERTIFICATE REQUEST-----",
            ", but a certificate signing request"
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nMIGHSECR\n-----END OPENSSH PRIVATE KEY-----", ", but an OpenSSH key"),
        ("-----BEGIN PKCS7-----\nMIGHSECR\n-----END PKCS7-----", ", but a PKCS#7 bundle"), ("rubbish", ""),
    ])
    func `a fault is named, and nothing of the text is shown`(text: String, fault: String) {
        let found = Credential.fault(ofKey: Array(text.utf8), passphrase: nil)?.description
        #expect(found == "no private key found\(fault); expected a PEM text with BEGIN PRIVATE KEY")
        #expect(Credential.fault(ofKey: client.certificatesPEM, passphrase: nil)?.contents == [.certificate])
        #expect(Credential.fault(ofCertificates: client.keyPEM)?.contents == [.privateKey])
    }

    @Test func `a wrong passphrase of a changed key is named as such`() throws {
        let folder = TemporaryFolder()
        folder.write(client.keyPEM, to: "key.pem")
        try Command.run([
            "openssl", "pkcs8", "-topk8", "-in", "\(folder.path)/key.pem", "-out", "\(folder.path)/locked.pem", "-passout",
            "pass:sesame",
        ])
        let locked = Change.quoted.apply(folder.read("locked.pem"))
        #expect(Credential.fault(ofKey: locked, passphrase: "sesame") == nil)
        #expect(Credential.fault(ofKey: locked, passphrase: "open")?.description == "the private key's passphrase is wrong")
    }

    @Test(arguments: 0..<20) func `no bytes stop it`(round: Int) {
        var generator = SeededGenerator(seed: UInt64(round))
        let seeds = [client.keyPEM, client.certificatesPEM, [UInt8](repeating: 0x30, count: 80)]
        for seed in seeds {
            for _ in 0..<20 {
                var bytes = seed
                for _ in 0..<Int.random(in: 1...8, using: &generator) {
                    let place = Int.random(in: 0..<bytes.count, using: &generator)
                    switch Int.random(in: 0...2, using: &generator) {
                    case 0: bytes[place] = UInt8.random(in: 0...255, using: &generator)
                    case 1: bytes.removeSubrange(place..<min(bytes.count, place + 7))
                    default: bytes.insert(contentsOf: seed.prefix(Int.random(in: 1...40, using: &generator)), at: place)
                    }
                    if bytes.isEmpty { bytes = [0x30] }
                }
                #expect(CredentialFile(bytes).pem.count <= 2 * bytes.count + 200)
            }
        }
    }
}
