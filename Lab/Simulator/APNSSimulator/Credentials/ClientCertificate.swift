internal import COpenSSL

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
