import Glibc
import Harness
import Platform

@testable import PushPool

/// A root, a server certificate for localhost and 127.0.0.1, and a client certificate as Apple makes them; once for all.
final class Certificates: Sendable {
    static let shared: Certificates = {
        do { return try Certificates() } catch { preconditionFailure("no certificates for the tests: \(error)") }
    }()

    let rootPEM: [UInt8]
    let server: TLSContext.Identity
    let client: TLSContext.Identity
    let signingKeyPEM: [UInt8]

    private init() throws {
        let directory = TemporaryFolder()
        let path = directory.path
        try Command.run(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=Test Root", "-keyout", "\(path)/root.key", "-out", "\(path)/root.pem")
        directory.write("subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n", to: "server.ext")
        try Certificates.issue("server", subject: "/CN=localhost", in: path)
        directory.write(Certificates.appleExtensions, to: "client.ext")
        try Certificates.issue("client", subject: "/UID=com.example.app/CN=Apple Push Services: com.example.app", in: path)
        try Command.run(
            "openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "\(path)/signing.p8")
        rootPEM = directory.read("root.pem")
        server = TLSContext.Identity(certificatesPEM: directory.read("server.pem"), keyPEM: directory.read("server.key"))
        client = TLSContext.Identity(certificatesPEM: directory.read("client.pem"), keyPEM: directory.read("client.key"))
        signingKeyPEM = directory.read("signing.p8")
    }

    static func issue(_ name: String, subject: String, in path: String, days: String = "2") throws {
        try Command.run(
            "openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
            "-keyout", "\(path)/\(name).key", "-out", "\(path)/\(name).csr")
        try Command.run(
            "openssl", "x509", "-req", "-in", "\(path)/\(name).csr", "-CA", "\(path)/root.pem", "-CAkey",
            "\(path)/root.key", "-CAcreateserial", "-days", days, "-extfile", "\(path)/\(name).ext", "-out",
            "\(path)/\(name).pem")
    }

    /// The environment markers, and the list of topics as the pushy project documents it.
    static let appleExtensions = """
        1.2.840.113635.100.6.3.1=ASN1:NULL
        1.2.840.113635.100.6.3.2=ASN1:NULL
        1.2.840.113635.100.6.3.6=ASN1:SEQUENCE:topics
        [topics]
        a=UTF8String:com.example.app
        b=SEQUENCE:services
        c=UTF8String:com.example.app.voip
        d=SEQUENCE:voip
        e=UTF8String:com.example.app.complication
        f=SEQUENCE:complication
        [services]
        a=UTF8String:app
        [voip]
        a=UTF8String:voip
        [complication]
        a=UTF8String:complication

        """
}

func signingKey(_ id: String = "ABCDE12345") throws -> SigningKey {
    try SigningKey(p8PEM: Certificates.shared.signingKeyPEM, keyID: id, teamID: "TEAM567890")
}
