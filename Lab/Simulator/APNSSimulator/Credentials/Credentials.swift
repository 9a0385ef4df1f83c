/// The certificates and keys that a client and the simulator need to trust each other.
public struct Credentials: Sendable {
    /// The flaw of the server's certificate.
    public enum ServerFlaw: String, Sendable, CaseIterable {
        case good
        /// Issued for another host.
        case wrongName = "wrong-name"
        /// Issued by an authority that is not in `ca.pem`.
        case untrusted
        case expired
    }

    public struct Request: Sendable {
        /// The topics of the client certificate. The first is the subject's UID; two or more are listed in an extension.
        public var topics: [String]
        /// 10 letters and digits.
        public var keyID: String
        /// 10 letters and digits.
        public var teamID: String
        public var p12Password = "simulator"
        /// Host names and addresses of the server certificate.
        public var serverNames = ["localhost", "127.0.0.1", "::1"]
        /// The validity of the server certificate, in seconds from now.
        public var serverValidity = -3600...(825 * 86400)
        /// Overrides `serverNames` and `serverValidity`.
        public var serverFlaw = ServerFlaw.good
        /// The validity of the client certificate, in seconds from now.
        public var clientValidity = -3600...(825 * 86400)
        /// The environments for which the client certificate is valid.
        public var clientEnvironments = PushEnvironment.allCases

        public init(topics: [String] = ["com.example.app"], keyID: String = "SIMKEY0001", teamID: String = "SIMTEAM001") {
            (self.topics, self.keyID, self.teamID) = (topics, keyID, teamID)
        }
    }

    public var authorityPEM: [UInt8]
    public var serverCertificatePEM: [UInt8]
    public var serverKeyPEM: [UInt8]
    public var clientCertificatePEM: [UInt8]
    public var clientKeyPEM: [UInt8]
    public var clientP12: [UInt8]
    /// The content of the `.p8`, with its key and team id.
    public var providerKey: ProviderKey
    /// Further keys of the team, as during a rotation.
    public var otherKeys: [ProviderKey] = []

    /// Makes new credentials, in a few milliseconds.
    public static func make(_ request: Request = Request()) throws(SimulatorError) -> Credentials {
        guard let topic = request.topics.first else { throw SimulatorError("a client certificate needs a topic") }
        for id in [request.keyID, request.teamID] where id.isEmpty || !id.utf8.allSatisfy(isLetterOrDigit) {
            throw SimulatorError("'\(id)' is not a key or team id; expected letters and digits")
        }
        let authority = try makeAuthority()
        let server = try makeServer(request, by: request.serverFlaw == .untrusted ? makeAuthority() : authority)
        let maker = CertificateMaker(validity: request.clientValidity)
        let client = try maker.issue(
            subject: [("UID", topic), ("CN", "Apple Push Services: \(topic)")],
            extensions: CertificateMaker.Extension.client(request.clientEnvironments, topics: request.topics), by: authority)
        return Credentials(
            authorityPEM: authority.pem, serverCertificatePEM: server.pem, serverKeyPEM: server.key.privatePEM,
            clientCertificatePEM: client.pem, clientKeyPEM: client.key.privatePEM,
            clientP12: try maker.pkcs12(
                client, authority: authority, name: "Apple Push Services: \(topic)", password: request.p12Password),
            providerKey: ProviderKey(
                keyID: request.keyID, teamID: request.teamID, pem: try SigningKey().privatePEM))
    }

    /// Adds a signing key with this id, unless there is one.
    ///
    /// - Returns: whether it is new.
    @discardableResult
    public mutating func addKey(_ keyID: String) throws(SimulatorError) -> Bool {
        if ([providerKey] + otherKeys).contains(where: { $0.keyID == keyID }) { return false }
        guard !keyID.isEmpty, keyID.utf8.allSatisfy(Self.isLetterOrDigit) else {
            throw SimulatorError("'\(keyID)' is not a key id; expected letters and digits")
        }
        otherKeys.append(ProviderKey(keyID: keyID, teamID: providerKey.teamID, pem: try SigningKey().privatePEM))
        return true
    }

    private static func makeAuthority() throws(SimulatorError) -> CertificateMaker.Issued {
        try CertificateMaker(validity: -3600...(3650 * 86400)).issue(
            subject: [("CN", "APNs simulator CA")], extensions: CertificateMaker.Extension.authority(), by: nil)
    }

    private static func makeServer(
        _ request: Request, by authority: CertificateMaker.Issued
    ) throws(SimulatorError) -> CertificateMaker.Issued {
        let names = request.serverFlaw == .wrongName ? ["elsewhere.example"] : request.serverNames
        let validity = request.serverFlaw == .expired ? -7200...(-3600) : request.serverValidity
        return try CertificateMaker(validity: validity).issue(
            subject: [("CN", names.first ?? "localhost")], extensions: CertificateMaker.Extension.server(names), by: authority)
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool { byte.isDecimalDigit || byte.isLetter }
}

/// Credentials as the files of a directory.
extension Credentials {
    enum FileName {
        static let authority = "ca.pem"
        static let serverCertificate = "server.pem"
        static let serverKey = "server-key.pem"
        static let clientCertificate = "client.pem"
        static let clientKey = "client-key.pem"
        static let clientP12 = "client.p12"
        static let teamID = "team-id"
        /// Names the first key where there are several.
        static let keyID = "key-id"
        static func providerKey(_ keyID: String) -> String { "AuthKey_\(keyID).p8" }
    }

    /// Returns whether the directory contains credentials.
    public static func exist(in directory: String) -> Bool { Files.exists("\(directory)/\(FileName.authority)") }

    /// Writes every file, keys with mode 0600. Replaces existing files and creates the directory.
    ///
    /// - Returns: the written paths.
    @discardableResult
    public func write(to directory: String) throws(SimulatorError) -> [String] {
        try Files.makeDirectory(directory)
        let others = otherKeys.map { (FileName.providerKey($0.keyID), $0.pem, true) }
        let files: [(name: String, content: [UInt8], isSecret: Bool)] =
            others + [
                (FileName.serverCertificate, serverCertificatePEM, false), (FileName.serverKey, serverKeyPEM, true),
                (FileName.clientCertificate, clientCertificatePEM, false), (FileName.clientKey, clientKeyPEM, true),
                (FileName.clientP12, clientP12, true), (FileName.providerKey(providerKey.keyID), providerKey.pem, true),
                (FileName.teamID, Array("\(providerKey.teamID)\n".utf8), false),
                (FileName.keyID, Array("\(providerKey.keyID)\n".utf8), false),
                (FileName.authority, authorityPEM, false),  // last: its presence means that all files are complete
            ]
        for file in files { try Files.write(file.content, to: "\(directory)/\(file.name)", isSecret: file.isSecret) }
        return files.map { "\(directory)/\($0.name)" }
    }

    /// Reads the files of `write(to:)`.
    public init(directory: String) throws(SimulatorError) {
        let keyFiles = try Files.names(in: directory).filter { $0.hasPrefix("AuthKey_") && $0.hasSuffix(".p8") }
        func read(_ name: String) throws(SimulatorError) -> [UInt8] { try Files.read("\(directory)/\(name)") }
        func word(_ name: String) throws(SimulatorError) -> String {
            String(decoding: try read(name).prefix { $0 > 0x20 }, as: UTF8.self)
        }
        let team = try word(FileName.teamID)
        let first =
            Files.exists("\(directory)/\(FileName.keyID)") ? FileName.providerKey(try word(FileName.keyID)) : keyFiles.first
        var keys: [ProviderKey] = []
        for name in keyFiles {
            keys.append(ProviderKey(keyID: String(name.dropFirst(8).dropLast(3)), teamID: team, pem: try read(name)))
        }
        guard let place = keyFiles.firstIndex(where: { $0 == first }) else {
            throw SimulatorError("there is no AuthKey_….p8 in \(directory)")
        }
        let key = keys.remove(at: place)
        self.init(
            authorityPEM: try read(FileName.authority), serverCertificatePEM: try read(FileName.serverCertificate),
            serverKeyPEM: try read(FileName.serverKey), clientCertificatePEM: try read(FileName.clientCertificate),
            clientKeyPEM: try read(FileName.clientKey), clientP12: try read(FileName.clientP12),
            providerKey: key, otherKeys: keys)
    }
}

extension Credentials: CustomStringConvertible {
    /// Names the key without its content.
    public var description: String { "credentials with \(providerKey)" }
}

/// The content of extension 1.2.840.113635.100.6.3.6: a sequence of pairs of a topic (UTF8String) and a sequence of its
/// services.
enum TopicList {
    static func encode(_ topics: [(name: String, service: String)]) -> [UInt8] {
        let pairs = topics.flatMap { topic in
            DER.encode(DER.utf8String, Array(topic.name.utf8))
                + DER.encode(DER.sequence, DER.encode(DER.utf8String, Array(topic.service.utf8)))
        }
        return DER.encode(DER.sequence, pairs)
    }

    /// Returns the topics without their services. Skips unreadable elements.
    static func decode(_ bytes: [UInt8]) -> [[UInt8]] {
        var outer = bytes[...]
        guard let list = DER.take(&outer), list.tag == DER.sequence else { return [] }
        var rest = list.content
        var topics: [[UInt8]] = []
        while let element = DER.take(&rest) {
            if element.tag == DER.utf8String { topics.append(Array(element.content)) }
        }
        return topics
    }
}
