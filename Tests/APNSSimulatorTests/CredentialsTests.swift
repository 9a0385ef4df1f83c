import APNSSimulator
import Foundation
import Testing

@testable import APNSSimulator

/// Read back with the openssl command, so that maker and reader do not merely agree with each other.
@Suite("Credentials made on the spot")
struct CredentialsTests {
    private let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        var request = Credentials.Request(
            topics: ["com.example.app", "com.example.app.voip"], keyID: "KEY0000001", teamID: "TEAM000001")
        request.p12Password = "geheim"
        try Credentials.make(request).write(to: directory.path)
    }

    private func openssl(_ words: String...) throws -> Program.Outcome { try Program.run(["openssl"] + words) }
    private func path(_ name: String) -> String { "\(directory.path)/\(name)" }

    @Test(arguments: [("server.pem", "sslserver"), ("client.pem", "sslclient")])
    func `the chain leads to the authority, for its purpose`(file: String, purpose: String) throws {
        let outcome = try openssl("verify", "-x509_strict", "-purpose", purpose, "-CAfile", path("ca.pem"), path(file))
        #expect(outcome.status == 0, "\(outcome.output)")
    }

    @Test(arguments: ["-verify_hostname localhost", "-verify_ip 127.0.0.1", "-verify_ip ::1"])
    func `the server is called by every name of this machine`(name: String) throws {
        let words = ["openssl", "verify", "-CAfile", path("ca.pem")] + name.split(separator: " ").map(String.init)
        #expect(try Program.run(words + [path("server.pem")]).status == 0)
    }

    @Test func `the client certificate says what Apple's do`() throws {
        let text = try openssl("x509", "-in", path("client.pem"), "-noout", "-subject", "-text").output
        #expect(text.contains("UID = com.example.app, CN = Apple Push Services: com.example.app"))
        for identifier in ["1.2.840.113635.100.6.3.1", "1.2.840.113635.100.6.3.2", "1.2.840.113635.100.6.3.6"] {
            #expect(text.contains(identifier))
        }
        #expect(text.contains("TLS Web Client Authentication"))
    }

    @Test func `the server reads its topics`() throws {
        let der = try Data(contentsOf: URL(fileURLWithPath: try converted()))
        let certificate = ClientCertificate(der: Array(der), environment: .production)
        #expect(certificate.topics.map { String(decoding: $0, as: UTF8.self) } == ["com.example.app", "com.example.app.voip"])
        #expect(certificate.fault == nil)
        #expect(ClientCertificate(der: [1, 2, 3], environment: .production).fault == .badCertificate)
    }

    private func converted() throws -> String {
        #expect(try openssl("x509", "-in", path("client.pem"), "-outform", "DER", "-out", path("client.der")).status == 0)
        return path("client.der")
    }

    @Test func `the PKCS 12 file opens with its password alone`() throws {
        #expect(
            try openssl("pkcs12", "-in", path("client.p12"), "-passin", "pass:geheim", "-noenc").output.contains("PRIVATE KEY"))
        #expect(try openssl("pkcs12", "-in", path("client.p12"), "-passin", "pass:falsch", "-noenc").status != 0)
    }

    @Test func `the provider key is PKCS 8 on P-256`() throws {
        let text = try openssl("pkey", "-in", path("AuthKey_KEY0000001.p8"), "-noout", "-text").output
        #expect(text.contains("prime256v1"))
        #expect(
            try String(contentsOfFile: path("AuthKey_KEY0000001.p8"), encoding: .utf8).hasPrefix("-----BEGIN PRIVATE KEY-----"))
    }

    @Test(arguments: ["server-key.pem", "client-key.pem", "client.p12", "AuthKey_KEY0000001.p8"])
    func `keys are their owner's alone`(name: String) throws {
        let attributes = try FileManager.default.attributesOfItem(atPath: path(name))
        #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    }

    @Test func `what was written is read back`() throws {
        let read = try Credentials(directory: directory.path)
        #expect(read.providerKey.keyID == "KEY0000001")
        #expect(read.providerKey.teamID == "TEAM000001")
        #expect(Credentials.exist(in: directory.path))
        #expect(!Credentials.exist(in: directory.path + "/nowhere"))
    }

    @Test func `an expired server certificate can be had`() throws {
        var request = Credentials.Request()
        request.serverValidity = -7200...(-3600)
        try Credentials.make(request).write(to: directory.path)
        let outcome = try openssl("verify", "-CAfile", path("ca.pem"), path("server.pem"))
        #expect(outcome.output.contains("expired"))
    }

    @Test func `a certificate for the other environment is refused`() throws {
        var request = Credentials.Request()
        request.clientEnvironments = [.sandbox]
        try Credentials.make(request).write(to: directory.path)
        let der = try Array(Data(contentsOf: URL(fileURLWithPath: try converted())))
        #expect(ClientCertificate(der: der, environment: .production).fault == .badCertificateEnvironment)
        #expect(ClientCertificate(der: der, environment: .sandbox).fault == nil)
    }

    @Test func `a subject that does not fit is an error and no crash`() {
        #expect(throws: SimulatorError.self) { try Credentials.make(.init(topics: [String(repeating: "x", count: 300)])) }
        #expect(throws: SimulatorError.self) { try Credentials.make(.init(topics: [])) }
        #expect(throws: SimulatorError.self) { try Credentials.make(.init(keyID: "a/b")) }
    }
}
