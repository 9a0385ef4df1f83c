internal import COpenSSL

/// Makes X.509 certificates with OpenSSL.
struct CertificateMaker {
    /// A certificate and its key.
    @safe final class Issued {
        let certificate: OpaquePointer
        let key: SigningKey

        init(certificate: OpaquePointer, key: SigningKey) {
            unsafe self.certificate = certificate
            self.key = key
        }

        deinit { unsafe X509_free(certificate) }

        var pem: [UInt8] { unsafe MemoryBIO.written { unsafe PEM_write_bio_X509($0, certificate) } }
    }

    /// An extension, by OpenSSL's configuration syntax or by object identifier and DER.
    enum Extension {
        case named(CInt, String)
        case custom(String, der: [UInt8])
    }

    /// Seconds from now.
    var validity: ClosedRange<Int>

    /// - Parameters:
    ///   - subject: attributes by OpenSSL's short names, in order.
    ///   - issuer: the signer; `nil` makes a self-signed certificate.
    func issue(
        subject: [(String, String)], extensions: [Extension], by issuer: Issued?
    ) throws(SimulatorError) -> Issued {
        let key = try SigningKey()
        guard let certificate = unsafe X509_new() else { throw SimulatorError("OpenSSL is out of memory") }
        let issued = unsafe Issued(certificate: certificate, key: key)
        unsafe X509_set_version(certificate, 2)  // X.509 version 3
        unsafe setSerial(certificate)
        unsafe X509_gmtime_adj(X509_getm_notBefore(certificate), validity.lowerBound)
        unsafe X509_gmtime_adj(X509_getm_notAfter(certificate), validity.upperBound)
        let name = unsafe X509_get_subject_name(certificate)
        for (attribute, value) in subject {
            guard unsafe X509_NAME_add_entry_by_txt(name, attribute, MBSTRING_UTF8, value, -1, -1, 0) == 1 else {
                ERR_clear_error()
                throw SimulatorError("'\(value)' cannot be the \(attribute) of a certificate")
            }
        }
        unsafe X509_set_issuer_name(certificate, X509_get_subject_name(issuer?.certificate ?? certificate))
        unsafe X509_set_pubkey(certificate, key.key)
        for each in extensions { try unsafe add(each, to: certificate, by: issuer?.certificate ?? certificate) }
        guard unsafe X509_sign(certificate, (issuer?.key ?? key).key, EVP_sha256()) > 0 else {
            throw SimulatorError("OpenSSL cannot sign a certificate")
        }
        return issued
    }

    /// Returns PKCS#12 with the chain up to `authority`.
    func pkcs12(_ issued: Issued, authority: Issued, name: String, password: String) throws(SimulatorError) -> [UInt8] {
        let chain = unsafe OPENSSL_sk_new_null()
        defer { unsafe OPENSSL_sk_free(chain) }
        unsafe OPENSSL_sk_push(chain, UnsafeRawPointer(authority.certificate))
        let archive = unsafe PKCS12_create(password, name, issued.key.key, issued.certificate, chain, 0, 0, 0, 0, 0)
        defer { unsafe PKCS12_free(archive) }
        let bytes = unsafe MemoryBIO.written { unsafe i2d_PKCS12_bio($0, archive) }
        guard !bytes.isEmpty else { throw SimulatorError("OpenSSL cannot make a PKCS#12 file") }
        return bytes
    }

    /// Sets 63 random bits. Clients compare issuer and serial.
    private func setSerial(_ certificate: OpaquePointer) {
        unsafe ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), UInt64.random(in: 1...UInt64(Int64.max)))
    }

    private func add(
        _ each: Extension, to certificate: OpaquePointer, by issuer: OpaquePointer
    ) throws(SimulatorError) {
        let made: OpaquePointer?
        switch each {
        case .named(let identifier, let text):
            var context = unsafe X509V3_CTX()
            unsafe X509V3_set_ctx(&context, issuer, certificate, nil, nil, 0)
            unsafe made = X509V3_EXT_conf_nid(nil, &context, identifier, text)
        case .custom(let identifier, let der):
            let object = unsafe OBJ_txt2obj(identifier, 1)
            let value = unsafe ASN1_OCTET_STRING_new()
            defer {
                unsafe ASN1_OBJECT_free(object)
                unsafe ASN1_OCTET_STRING_free(value)
            }
            unsafe ASN1_OCTET_STRING_set(value, der, CInt(der.count))
            unsafe made = X509_EXTENSION_create_by_OBJ(nil, object, 0, value)
        }
        defer { unsafe X509_EXTENSION_free(made) }
        guard let made = unsafe made, unsafe X509_add_ext(certificate, made, -1) == 1 else {
            ERR_clear_error()
            throw SimulatorError("OpenSSL rejects the extension \(each)")
        }
    }
}

extension CertificateMaker.Extension {
    static func authority() -> [Self] {
        [
            .named(NID_basic_constraints, "critical,CA:TRUE"), .named(NID_key_usage, "critical,keyCertSign,cRLSign"),
            .named(NID_subject_key_identifier, "hash"),
        ]
    }

    /// - Parameter names: host names and address literals.
    static func server(_ names: [String]) -> [Self] {
        let entries = names.map { name in
            let isAddress = name.contains(":") || name.allSatisfy { $0.isNumber || $0 == "." }
            return (isAddress ? "IP:" : "DNS:") + name
        }
        return leaf("serverAuth") + [.named(NID_subject_alt_name, entries.joined(separator: ","))]
    }

    static func client(_ environments: [PushEnvironment], topics: [String]) -> [Self] {
        var extensions = leaf("clientAuth")
        for environment in environments {
            extensions.append(.custom(ClientCertificate.Extension.mark(of: environment), der: [0x05, 0x00]))  // NULL
        }
        if topics.count > 1 {
            let list = topics.map { topic in
                let service = ["voip", "complication"].first { topic.hasSuffix(".\($0)") } ?? "app"
                return (name: topic, service: service)
            }
            extensions.append(.custom(ClientCertificate.Extension.topics, der: TopicList.encode(list)))
        }
        return extensions
    }

    private static func leaf(_ purpose: String) -> [Self] {
        [
            .named(NID_basic_constraints, "critical,CA:FALSE"), .named(NID_key_usage, "critical,digitalSignature"),
            .named(NID_ext_key_usage, purpose), .named(NID_subject_key_identifier, "hash"),
            .named(NID_authority_key_identifier, "keyid"),
        ]
    }
}

/// The DER encoding (X.690) of topic lists and ECDSA signatures. Independent of the product's code, which it tests.
enum DER {
    static let integer: UInt8 = 0x02
    static let utf8String: UInt8 = 0x0C
    static let sequence: UInt8 = 0x30

    static func encode(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        switch content.count {
        case ..<128: [tag, UInt8(content.count)] + content
        case ..<256: [tag, 0x81, UInt8(content.count)] + content
        default: [tag, 0x82, UInt8(content.count >> 8 & 0xFF), UInt8(content.count & 0xFF)] + content
        }
    }

    /// Removes the first element; `nil` if the bytes are not a complete element.
    static func take(_ rest: inout ArraySlice<UInt8>) -> (tag: UInt8, content: ArraySlice<UInt8>)? {
        guard let tag = rest.popFirst(), let first = rest.popFirst() else { return nil }
        var length = Int(first)
        if first >= 0x80 {
            let size = Int(first & 0x7F)
            guard (1...2).contains(size), rest.count >= size else { return nil }
            length = rest.prefix(size).reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(size)
        }
        guard rest.count >= length else { return nil }
        defer { rest = rest.dropFirst(length) }
        return (tag, rest.prefix(length))
    }
}

/// The properties of a client certificate that APNs checks.
struct ClientCertificate: Equatable {
    /// Apple's extensions ("Establishing a certificate-based connection to APNs").
    enum Extension {
        static let development = "1.2.840.113635.100.6.3.1"
        static let production = "1.2.840.113635.100.6.3.2"
        static let topics = "1.2.840.113635.100.6.3.6"

        static func mark(of environment: PushEnvironment) -> String {
            environment == .production ? production : development
        }
    }

    /// The topics of extension `.6`, or the subject's UID.
    var topics: [[UInt8]]
    /// The reason with which APNs rejects every request of this certificate.
    var fault: Reason?

    init(topics: [[UInt8]], fault: Reason? = nil) {
        self.topics = topics
        self.fault = fault
    }

    init(der: [UInt8], environment: PushEnvironment) {
        let certificate = unsafe der.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            return unsafe d2i_X509(nil, &next, buffer.count)
        }
        guard let certificate = unsafe certificate else {
            ERR_clear_error()
            self.init(topics: [], fault: .badCertificate)
            return
        }
        defer { unsafe X509_free(certificate) }
        let userID = unsafe ClientCertificate.userID(of: certificate)
        let listed = unsafe ClientCertificate.value(of: Extension.topics, in: certificate).map(TopicList.decode) ?? []
        let isForEnvironment = unsafe ClientCertificate.value(of: Extension.mark(of: environment), in: certificate) != nil
        let topics = listed.isEmpty ? [userID].compactMap { $0 } : listed
        self.init(
            topics: topics, fault: topics.isEmpty ? .badCertificate : isForEnvironment ? nil : .badCertificateEnvironment)
    }

    private static func userID(of certificate: OpaquePointer) -> [UInt8]? {
        var text = [CChar](repeating: 0, count: 256)
        let length = unsafe X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_userId, &text, CInt(text.count))
        return length > 0 ? text[..<Int(length)].map(UInt8.init(bitPattern:)) : nil
    }

    private static func value(of identifier: String, in certificate: OpaquePointer) -> [UInt8]? {
        let object = unsafe OBJ_txt2obj(identifier, 1)
        defer { unsafe ASN1_OBJECT_free(object) }
        let place = unsafe X509_get_ext_by_OBJ(certificate, object, -1)
        guard place >= 0, let data = unsafe X509_EXTENSION_get_data(X509_get_ext(certificate, place)) else { return nil }
        return unsafe Array(UnsafeBufferPointer(start: ASN1_STRING_get0_data(data), count: Int(ASN1_STRING_length(data))))
    }
}
