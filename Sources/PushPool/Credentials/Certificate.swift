internal import COpenSSL
internal import Glibc
internal import Platform

/// Owns one `X509`.
@safe final class Certificate {
    let handle: OpaquePointer

    /// Takes over a reference.
    init(owning handle: OpaquePointer) { unsafe self.handle = unsafe handle }

    deinit { unsafe X509_free(handle) }

    /// Returns every certificate of a PEM text; at least one.
    static func all(pem: [UInt8]) throws(CredentialError) -> [Certificate] {
        var found = read(pem)
        let file = CredentialFile(pem)
        // OpenSSL passes over what is damaged.
        if file.contents.count(where: { $0 == .certificate }) > found.count {
            let repaired = read(file.pem)
            if repaired.count > found.count { found = repaired }
        }
        if found.isEmpty {
            throw CredentialError(
                file.lack(of: .certificate, expected: "a PEM text with BEGIN CERTIFICATE"), contents: file.contents)
        }
        return found
    }

    private static func read(_ pem: [UInt8]) -> [Certificate] {
        defer { ERR_clear_error() }
        return unsafe withMemoryBIO(pem) { bio in
            var certificates: [Certificate] = []
            while let handle = unsafe PEM_read_bio_X509(bio, nil, refusePassphrase, nil) {
                unsafe certificates.append(Certificate(owning: handle))
            }
            return certificates
        }
    }

    func pem() throws(CredentialError) -> [UInt8] {
        try unsafe writeMemoryBIO("the certificate cannot be written as PEM") { unsafe PEM_write_bio_X509($0, handle) }
    }

    var facts: CertificateFacts {
        unsafe CertificateFacts(
            subject: subject, userID: userID, topics: topics, notBefore: seconds(X509_get0_notBefore(handle)),
            notAfter: seconds(X509_get0_notAfter(handle)),
            isForDevelopment: extensionValue("1.2.840.113635.100.6.3.1") != nil,
            isForProduction: extensionValue("1.2.840.113635.100.6.3.2") != nil)
    }

    private var subject: String {
        let layout = XN_FLAG_SEP_CPLUS_SPC | XN_FLAG_SPC_EQ | XN_FLAG_FN_SN
        let flags = UInt(layout | ASN1_STRFLGS_ESC_CTRL | ASN1_STRFLGS_UTF8_CONVERT)
        let text = try? unsafe writeMemoryBIO("") { bio in
            unsafe X509_NAME_print_ex(bio, X509_get_subject_name(handle), 0, flags) >= 0 ? 1 : 0
        }
        return String(decoding: text ?? [], as: UTF8.self)
    }

    private var userID: String? {
        let name = unsafe X509_get_subject_name(handle)
        let place = unsafe X509_NAME_get_index_by_NID(name, NID_userId, -1)
        guard place >= 0, let value = unsafe X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, place)) else { return nil }
        var utf8: UnsafeMutablePointer<UInt8>?
        let count = unsafe ASN1_STRING_to_UTF8(&utf8, value)
        guard count > 0, let utf8 = unsafe utf8 else { return nil }
        defer { unsafe CRYPTO_free(utf8, nil, 0) }
        return unsafe String(decoding: UnsafeBufferPointer(start: utf8, count: Int(count)), as: UTF8.self)
    }

    private var topics: [String] {
        extensionValue("1.2.840.113635.100.6.3.6").map(Certificate.topics(inExtension:)) ?? []
    }

    /// Returns the topics in the value of extension .6: a SEQUENCE in which a UTF8String with a topic and a SEQUENCE of its
    /// services take turns (jchambers/pushy, certificate script).
    static func topics(inExtension value: [UInt8]) -> [String] {
        defer { ERR_clear_error() }
        return unsafe value.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            guard let elements = unsafe d2i_ASN1_SEQUENCE_ANY(nil, &next, bytes.count) else { return [] }
            defer { unsafe shim_sk_ASN1_TYPE_pop_free(elements) }
            var topics: [String] = []
            for place in unsafe 0..<max(0, shim_sk_ASN1_TYPE_num(elements)) {
                guard let topic = unsafe shim_sk_ASN1_TYPE_get0_UTF8String(elements, place) else { continue }
                unsafe topics.append(String(decoding: Certificate.bytes(of: topic), as: UTF8.self))
            }
            return topics
        }
    }

    private static func bytes(of string: UnsafePointer<ASN1_STRING>) -> [UInt8] {
        unsafe Array(UnsafeBufferPointer(start: ASN1_STRING_get0_data(string), count: Int(ASN1_STRING_length(string))))
    }

    private func extensionValue(_ identifier: String) -> [UInt8]? {
        let object = unsafe OBJ_txt2obj(identifier, 1)
        defer { unsafe ASN1_OBJECT_free(object) }
        let place = unsafe X509_get_ext_by_OBJ(handle, object, -1)
        guard place >= 0, let data = unsafe X509_EXTENSION_get_data(X509_get_ext(handle, place)) else { return nil }
        return unsafe Certificate.bytes(of: data)
    }

    private func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = unsafe tm()
        guard unsafe ASN1_TIME_to_tm(time, &parts) == 1 else { return 0 }
        return unsafe Int64(timegm(&parts))
    }
}

/// Returns the bytes that `body` writes to a BIO. `body` returns 1 for success.
func writeMemoryBIO(_ fault: String, _ body: (OpaquePointer?) -> CInt) throws(CredentialError) -> [UInt8] {
    let bio = unsafe BIO_new(BIO_s_mem())
    defer { unsafe BIO_free(bio) }
    ERR_clear_error()
    guard unsafe body(bio) == 1 else {
        ERR_clear_error()
        throw CredentialError(fault)
    }
    var start: UnsafeMutablePointer<CChar>?
    let count = unsafe shim_BIO_get_mem_data(bio, &start)
    guard count > 0, let start = unsafe start else { return [] }
    return unsafe Array(UnsafeRawBufferPointer(start: start, count: Int(count)))
}

/// The content of an APNs client certificate.
public struct CertificateFacts: Sendable, Equatable {
    /// The subject on one line.
    public var subject: String
    /// The subject's UID (0.9.2342.19200300.100.1.1): the default topic.
    public var userID: String?
    /// Topics of extension 1.2.840.113635.100.6.3.6 in its order; empty without the extension.
    public var topics: [String]
    /// Unix seconds.
    public var notBefore: Int64
    /// Unix seconds.
    public var notAfter: Int64
    /// Whether extension 1.2.840.113635.100.6.3.1 is present: valid for the sandbox.
    public var isForDevelopment: Bool
    /// Whether extension 1.2.840.113635.100.6.3.2 is present: valid for production.
    public var isForProduction: Bool

    public init(
        subject: String, userID: String?, topics: [String], notBefore: Int64, notAfter: Int64, isForDevelopment: Bool,
        isForProduction: Bool
    ) {
        self.subject = subject
        self.userID = userID
        self.topics = topics
        self.notBefore = notBefore
        self.notAfter = notAfter
        self.isForDevelopment = isForDevelopment
        self.isForProduction = isForProduction
    }

    /// The topic of a push without one: the UID, or the certificate's only topic.
    public var defaultTopic: String? { userID ?? (topics.count == 1 ? topics.first : nil) }

    /// Returns the whole days until it expires; negative afterwards.
    public func daysLeft(now: Int64) -> Int64 {
        let seconds = notAfter - now
        return seconds >= 0 ? seconds / 86_400 : (seconds - 86_399) / 86_400
    }

    /// Returns the error in its dates, or `nil` if they are valid.
    public func faultOfDates(now: Int64) -> CredentialError? {
        if now > notAfter {
            return CredentialError("the certificate expired on \(UTCDate.day(notAfter)); expected a valid one")
        }
        if now < notBefore {
            return CredentialError(
                "the certificate is not valid before \(UTCDate.day(notBefore)); expected a valid one, or a correct clock")
        }
        return nil
    }
}
