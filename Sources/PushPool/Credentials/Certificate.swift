internal import COpenSSL
internal import Glibc

/// One `X509`.
final class Certificate {
    let handle: OpaquePointer

    /// Takes over a reference.
    init(owning handle: OpaquePointer) { self.handle = handle }

    deinit { X509_free(handle) }

    /// Every certificate in a PEM text; at least one.
    static func all(pem: [UInt8]) throws(CredentialError) -> [Certificate] {
        let found = withMemoryBIO(pem) { bio in
            var certificates: [Certificate] = []
            while let handle = PEM_read_bio_X509(bio, nil, refusePassphrase, nil) {
                certificates.append(Certificate(owning: handle))
            }
            return certificates
        }
        ERR_clear_error()
        if found.isEmpty {
            throw CredentialError("there is no certificate in it; a PEM text with BEGIN CERTIFICATE is wanted")
        }
        return found
    }

    func pem() throws(CredentialError) -> [UInt8] {
        try writeMemoryBIO("the certificate cannot be written as PEM") { PEM_write_bio_X509($0, handle) }
    }

    var facts: CertificateFacts {
        CertificateFacts(
            subject: subject, userID: userID, topics: topics, notBefore: seconds(X509_get0_notBefore(handle)),
            notAfter: seconds(X509_get0_notAfter(handle)),
            isForDevelopment: extensionValue("1.2.840.113635.100.6.3.1") != nil,
            isForProduction: extensionValue("1.2.840.113635.100.6.3.2") != nil)
    }

    private var subject: String {
        let layout = XN_FLAG_SEP_CPLUS_SPC | XN_FLAG_SPC_EQ | XN_FLAG_FN_SN
        let flags = UInt(layout | ASN1_STRFLGS_ESC_CTRL | ASN1_STRFLGS_UTF8_CONVERT)
        let text = try? writeMemoryBIO("") { bio in
            X509_NAME_print_ex(bio, X509_get_subject_name(handle), 0, flags) >= 0 ? 1 : 0
        }
        return String(decoding: text ?? [], as: UTF8.self)
    }

    private var userID: String? {
        let name = X509_get_subject_name(handle)
        let place = X509_NAME_get_index_by_NID(name, NID_userId, -1)
        guard place >= 0, let value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, place)) else { return nil }
        var utf8: UnsafeMutablePointer<UInt8>?
        let count = ASN1_STRING_to_UTF8(&utf8, value)
        guard count > 0, let utf8 else { return nil }
        defer { CRYPTO_free(utf8, nil, 0) }
        return String(decoding: UnsafeBufferPointer(start: utf8, count: Int(count)), as: UTF8.self)
    }

    private var topics: [String] {
        extensionValue("1.2.840.113635.100.6.3.6").map(CertificateFacts.topics(inExtension:)) ?? []
    }

    private func extensionValue(_ identifier: String) -> [UInt8]? {
        let object = OBJ_txt2obj(identifier, 1)
        defer { ASN1_OBJECT_free(object) }
        let place = X509_get_ext_by_OBJ(handle, object, -1)
        guard place >= 0, let data = X509_EXTENSION_get_data(X509_get_ext(handle, place)) else { return nil }
        return Array(UnsafeBufferPointer(start: ASN1_STRING_get0_data(data), count: Int(ASN1_STRING_length(data))))
    }

    private func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = tm()
        guard ASN1_TIME_to_tm(time, &parts) == 1 else { return 0 }
        return Int64(timegm(&parts))
    }
}

/// Without it OpenSSL would ask on the terminal.
private let refusePassphrase: @convention(c) (UnsafeMutablePointer<CChar>?, CInt, CInt, UnsafeMutableRawPointer?) -> CInt =
    { _, _, _, _ in -1 }

/// Lets C read `bytes` as a file.
func withMemoryBIO<Result>(_ bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
    bytes.withUnsafeBytes { raw in
        let bio = BIO_new_mem_buf(raw.baseAddress, CInt(clamping: raw.count))
        defer { BIO_free(bio) }
        return body(bio)
    }
}

/// What C writes to a file, as bytes. `body` returns 1 when it worked.
func writeMemoryBIO(_ fault: String, _ body: (OpaquePointer?) -> CInt) throws(CredentialError) -> [UInt8] {
    let bio = BIO_new(BIO_s_mem())
    defer { BIO_free(bio) }
    ERR_clear_error()
    guard body(bio) == 1 else {
        ERR_clear_error()
        throw CredentialError(fault)
    }
    var start: UnsafeMutablePointer<CChar>?
    let count = shim_BIO_get_mem_data(bio, &start)
    guard count > 0, let start else { return [] }
    return Array(UnsafeRawBufferPointer(start: start, count: Int(count)))
}
