import APNSSimulator
import Glibc
import Harness
import Testing

@testable import APNSSimulator

/// The openssl command reads the credentials, as an independent oracle.
@Suite("Generated credentials")
struct CredentialsTests {
    private let folder = TemporaryFolder()

    init() throws {
        var request = Credentials.Request(
            topics: ["com.example.app", "com.example.app.voip"], keyID: "KEY0000001", teamID: "TEAM000001")
        request.p12Password = "geheim"
        try Credentials.make(request).write(to: folder.path)
    }

    private func openssl(_ words: String...) throws -> Program.Outcome { try Program.run(["openssl"] + words) }
    private func path(_ name: String) -> String { folder.file(name) }

    @Test(arguments: [("server.pem", "sslserver"), ("client.pem", "sslclient")])
    func `the chain is valid for its purpose`(file: String, purpose: String) throws {
        let outcome = try openssl("verify", "-x509_strict", "-purpose", purpose, "-CAfile", path("ca.pem"), path(file))
        #expect(outcome.status == 0, "\(outcome.output)")
    }

    @Test(arguments: ["-verify_hostname localhost", "-verify_ip 127.0.0.1", "-verify_ip ::1"])
    func `the server certificate has every name of this machine`(name: String) throws {
        let words = ["openssl", "verify", "-CAfile", path("ca.pem")] + name.split(separator: " ").map(String.init)
        #expect(try Program.run(words + [path("server.pem")]).status == 0)
    }

    @Test func `the client certificate has the extensions of Apple's`() throws {
        let text = try openssl("x509", "-in", path("client.pem"), "-noout", "-subject", "-text").output
        #expect(text.contains("UID = com.example.app, CN = Apple Push Services: com.example.app"))
        for identifier in ["1.2.840.113635.100.6.3.1", "1.2.840.113635.100.6.3.2", "1.2.840.113635.100.6.3.6"] {
            #expect(text.contains(identifier))
        }
        #expect(text.contains("TLS Web Client Authentication"))
    }

    @Test func `the simulator reads the topics`() throws {
        let certificate = ClientCertificate(der: try der(), environment: .production)
        #expect(certificate.topics.map { String(decoding: $0, as: UTF8.self) } == ["com.example.app", "com.example.app.voip"])
        #expect(certificate.fault == nil)
        #expect(ClientCertificate(der: [1, 2, 3], environment: .production).fault == .badCertificate)
    }

    private func der() throws -> [UInt8] {
        #expect(try openssl("x509", "-in", path("client.pem"), "-outform", "DER", "-out", path("client.der")).status == 0)
        return try Files.read(path("client.der"))
    }

    @Test func `the PKCS 12 file requires its password`() throws {
        #expect(
            try openssl("pkcs12", "-in", path("client.p12"), "-passin", "pass:geheim", "-noenc").output.contains("PRIVATE KEY"))
        #expect(try openssl("pkcs12", "-in", path("client.p12"), "-passin", "pass:falsch", "-noenc").status != 0)
    }

    @Test func `the provider key is PKCS 8 on P-256`() throws {
        let text = try openssl("pkey", "-in", path("AuthKey_KEY0000001.p8"), "-noout", "-text").output
        #expect(text.contains("prime256v1"))
        #expect(File.read(path("AuthKey_KEY0000001.p8")).hasPrefix("-----BEGIN PRIVATE KEY-----"))
    }

    @Test(arguments: ["server-key.pem", "client-key.pem", "client.p12", "AuthKey_KEY0000001.p8"])
    func `key files have mode 0600`(name: String) throws {
        var facts = stat()
        #expect(stat(path(name), &facts) == 0)
        #expect(facts.st_mode & 0o777 == 0o600)
    }

    @Test func `written credentials are read back`() throws {
        let read = try Credentials(directory: folder.path)
        #expect(read.providerKey.keyID == "KEY0000001")
        #expect(read.providerKey.teamID == "TEAM000001")
        #expect(Credentials.exist(in: folder.path))
        #expect(!Credentials.exist(in: folder.file("nowhere")))
    }

    @Test func `further signing keys are written and read back, and the first one stays the first`() throws {
        var read = try Credentials(directory: folder.path)
        for (id, isNew) in [("AKEY000001", true), ("AKEY000001", false), ("KEY0000001", false)] {
            #expect(try read.addKey(id) == isNew)
        }
        #expect(throws: SimulatorError.self) { try read.addKey("../x") }
        try read.write(to: folder.path)
        let again = try Credentials(directory: folder.path)
        #expect(again.providerKey.keyID == "KEY0000001" && again.otherKeys.map(\.keyID) == ["AKEY000001"])
        #expect(again.otherKeys[0].pem != again.providerKey.pem)
        #expect(Simulator.Configuration(credentials: again).providerKeys.map(\.keyID) == ["KEY0000001", "AKEY000001"])
    }

    @Test func `an expired server certificate can be made`() throws {
        var request = Credentials.Request()
        request.serverValidity = -7200...(-3600)
        try Credentials.make(request).write(to: folder.path)
        let outcome = try openssl("verify", "-CAfile", path("ca.pem"), path("server.pem"))
        #expect(outcome.output.contains("expired"))
    }

    @Test func `a certificate for the other environment is refused`() throws {
        var request = Credentials.Request()
        request.clientEnvironments = [.sandbox]
        try Credentials.make(request).write(to: folder.path)
        let der = try der()
        #expect(ClientCertificate(der: der, environment: .production).fault == .badCertificateEnvironment)
        #expect(ClientCertificate(der: der, environment: .sandbox).fault == nil)
    }

    @Test func `an invalid subject is an error`() {
        #expect(throws: SimulatorError.self) { try Credentials.make(.init(topics: [String(repeating: "x", count: 300)])) }
        #expect(throws: SimulatorError.self) { try Credentials.make(.init(topics: [])) }
        #expect(throws: SimulatorError.self) { try Credentials.make(.init(keyID: "a/b")) }
    }
}
