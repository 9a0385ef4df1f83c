internal import COpenSSL
internal import Platform

/// Owns one `EVP_PKEY`. Immutable; OpenSSL counts references to it with atomics.
@safe final class PrivateKey: @unchecked Sendable {  // Nothing is written to `handle` after init; signing only reads it.
    let handle: OpaquePointer

    /// Takes over a reference.
    init(owning handle: OpaquePointer) { unsafe self.handle = unsafe handle }

    deinit { unsafe EVP_PKEY_free(handle) }

    /// Reads a key in PEM, also with a cipher that only OpenSSL's legacy provider knows, and in the forms that `CredentialFile`
    /// repairs.
    ///
    /// - Parameter passphrase: `nil` rejects an encrypted key with an error of its own.
    init(pem: [UInt8], passphrase: String?) throws(CredentialError) {
        let question = Question(passphrase.map { Array($0.utf8) })
        var handle = unsafe PrivateKey.read(pem, question, in: nil)
        var file: CredentialFile?
        var text = pem
        if unsafe handle == nil, !question.wasAsked {
            let repaired = CredentialFile(pem)
            file = repaired
            if !repaired.pem.isEmpty, repaired.pem != pem {
                text = repaired.pem
                unsafe handle = unsafe PrivateKey.read(text, question, in: nil)
            }
        }
        if unsafe handle == nil, question.wasAsked, passphrase != nil {
            unsafe handle = unsafe PrivateKey.readLegacy(text, question)
        }
        if let handle = unsafe handle {
            unsafe self.handle = unsafe handle
        } else if question.wasAsked, passphrase != nil, !hasLegacyProvider {
            throw CredentialError(
                "the private key's passphrase is wrong, or the key is encrypted in an old way"
                    + (PrivateKey.cipher(ofTraditional: text).map { " (\($0))" } ?? "")
                    + " and OpenSSL's legacy provider is not installed", in: .password)
        } else if question.wasAsked {
            throw CredentialError(
                passphrase == nil
                    ? "the private key is encrypted and no passphrase was given"
                    : "the private key's passphrase is wrong",
                in: .password)
        } else if let cipher = PrivateKey.cipher(ofTraditional: text) {
            throw CredentialError(
                "the private key is encrypted with \(cipher), which OpenSSL does not support; "
                    + "expected another cipher, as `openssl pkcs8 -topk8` writes it",
                in: .privateKey)
        } else {
            let file = file ?? CredentialFile(pem)
            throw CredentialError(
                file.lack(of: .privateKey, expected: "a PEM text with BEGIN PRIVATE KEY"), in: .privateKey,
                contents: file.contents)
        }
    }

    private static func read(_ pem: [UInt8], _ question: Question, in context: OpaquePointer?) -> OpaquePointer? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        return unsafe withMemoryBIO(pem) { bio in
            unsafe PEM_read_bio_PrivateKey_ex(
                bio, nil, Question.answer, Unmanaged.passUnretained(question).toOpaque(), context, nil)
        }
    }

    /// Reads a key with a cipher that only OpenSSL's legacy provider knows: PKCS#8 in PBE-MD5-DES or PBE-SHA1-RC2-40, OpenSSL's
    /// own format in DES-CBC. The context is a temporary one, as for PKCS#12.
    private static func readLegacy(_ pem: [UInt8], _ question: Question) -> OpaquePointer? {
        unsafe withLegacyContext { context in
            guard let context = unsafe context else { return nil }
            let copy = unsafe withDefault(context) {
                unsafe read(pem, question, in: context).flatMap { try? unsafe PrivateKey(owning: $0).pem() }
            }
            // An object must not outlive its context: PEM copies it into the default one.
            return unsafe copy.flatMap { unsafe read($0, Question(nil), in: nil) }
        }
    }

    /// The cipher of a key in OpenSSL's own format (`DEK-Info: DES-CBC,…`).
    private static func cipher(ofTraditional pem: [UInt8]) -> String? {
        let text = String(decoding: pem, as: UTF8.self)
        guard let mark = text.firstRange(of: "DEK-Info: ") else { return nil }
        let name = text[mark.upperBound...].prefix { $0.isLetter || $0.isNumber || $0 == "-" }
        return name.isEmpty || name.count > 20 ? nil : String(name)
    }

    func belongs(to certificate: Certificate) -> Bool {
        defer { ERR_clear_error() }
        return unsafe X509_check_private_key(certificate.handle, handle) == 1
    }

    /// Returns unencrypted PKCS#8 PEM. It must not leave this process's memory.
    func pem() throws(CredentialError) -> [UInt8] {
        try unsafe writeMemoryBIO("the private key cannot be written as PEM") {
            unsafe PEM_write_bio_PKCS8PrivateKey($0, handle, nil, nil, 0, nil, nil)
        }
    }

    /// Answers OpenSSL's request for the passphrase of an encrypted key.
    private final class Question {
        private let passphrase: [UInt8]?
        var wasAsked = false

        init(_ passphrase: [UInt8]?) { self.passphrase = passphrase }

        static let answer: @convention(c) (UnsafeMutablePointer<CChar>?, CInt, CInt, UnsafeMutableRawPointer?) -> CInt = {
            buffer, room, _, context in
            guard let context = unsafe context, let buffer = unsafe buffer else { return -1 }
            let question = unsafe Unmanaged<Question>.fromOpaque(context).takeUnretainedValue()
            question.wasAsked = true
            guard let passphrase = question.passphrase, passphrase.count <= Int(room) else { return -1 }
            for (place, byte) in passphrase.enumerated() { unsafe buffer[place] = CChar(bitPattern: byte) }
            return CInt(passphrase.count)
        }
    }
}

/// Whether OpenSSL's legacy provider is installed.
private var hasLegacyProvider: Bool { unsafe withLegacyContext { unsafe $0 != nil } }

/// Opens PKCS#12 files: a certificate and its key as the Keychain exports them.
enum PKCS12File {
    /// The certificate of the key first. A file may lack the key.
    typealias Content = (certificates: [Certificate], key: PrivateKey?)

    static func open(
        _ bytes: [UInt8], password: String
    ) throws(CredentialError) -> (certificates: [Certificate], key: PrivateKey) {
        let content = try read(bytes, password: password)
        guard let key = content.key, !content.certificates.isEmpty else {
            throw CredentialError("the PKCS#12 file lacks the certificate or its private key; expected both, exported together")
        }
        return (content.certificates, key)
    }

    /// Tries OpenSSL's default provider, then its legacy provider in a temporary library context: only that one knows RC2-40,
    /// which the Keychain writes (openssl/openssl#19871).
    static func read(_ bytes: [UInt8], password: String) throws(CredentialError) -> Content {
        var bytes = bytes
        var answer = unsafe parse(bytes, password, in: nil)
        if case .notPKCS12 = answer {
            let file = CredentialFile(bytes)
            if let data = file.pkcs12, data != bytes {
                bytes = data
                answer = unsafe parse(bytes, password, in: nil)
            } else if let content = file.contents.first, content != .pkcs12 {
                throw CredentialError(
                    "not a PKCS#12 file, but \(content.words); expected a .p12 file as the Keychain exports it",
                    contents: file.contents)
            }
        }
        switch answer {
        case .content(let content): return content
        case .notPKCS12:
            throw CredentialError("not a PKCS#12 file, or damaged; expected a .p12 file as the Keychain exports it")
        case .wrongPassword: throw CredentialError("the PKCS#12 file's password is wrong", in: .password)
        case .unsupported: break
        }
        switch unsafe withLegacyContext({ context in unsafe context.map { unsafe parse(bytes, password, in: $0) } }) {
        case nil:
            throw CredentialError(
                "the PKCS#12 file is encrypted in an old way (RC2-40) and OpenSSL's legacy provider is not installed; "
                    + "expected a newer export, or PEM from `openssl pkcs12 -legacy`")
        case .content(let content): return content
        case .wrongPassword: throw CredentialError("the PKCS#12 file's password is wrong", in: .password)
        case .notPKCS12, .unsupported:
            throw CredentialError(
                "the PKCS#12 file is encrypted with a cipher that OpenSSL does not support, even with its legacy provider; "
                    + "expected a newer export, or PEM")
        }
    }

    private enum Answer {
        case content(Content)
        case notPKCS12, wrongPassword, unsupported
    }

    private static func parse(_ bytes: [UInt8], _ password: String, in context: OpaquePointer?) -> Answer {
        ERR_clear_error()
        defer { ERR_clear_error() }
        var file = unsafe PKCS12_init_ex(NID_pkcs7_data, context, nil)
        // Before the read: a text that ends too early leaves the object in place.
        defer { unsafe PKCS12_free(file) }
        guard unsafe file != nil, unsafe withMemoryBIO(bytes, { unsafe d2i_PKCS12_bio($0, &file) }) != nil else {
            return .notPKCS12
        }
        // The MAC is checked first, so that its failure means the password and a later failure the ciphers.
        // A file without a MAC gets one: PKCS12_parse wants it.
        let hasMAC = unsafe PKCS12_mac_present(file) == 1
        if !hasMAC { unsafe PKCS12_set_mac(file, password, CInt(clamping: password.utf8.count), nil, 0, 1, EVP_sha256()) }
        let hasNoPassword = unsafe password.isEmpty && PKCS12_verify_mac(file, nil, 0) == 1
        if unsafe !hasNoPassword && PKCS12_verify_mac(file, password, CInt(clamping: password.utf8.count)) != 1 {
            return isUnsupported() ? .unsupported : .wrongPassword
        }
        ERR_clear_error()
        var key: OpaquePointer?
        var certificate: OpaquePointer?
        var others: OpaquePointer?
        let isParsed = unsafe withDefault(context) {
            unsafe PKCS12_parse(file, hasNoPassword ? nil : password, &key, &certificate, &others) == 1
        }
        guard isParsed else { return hasMAC || isUnsupported() ? .unsupported : .wrongPassword }
        let chain = unsafe (0..<max(0, shim_sk_X509_num(others))).compactMap { place -> Certificate? in
            guard let other = unsafe shim_sk_X509_value(others, place) else { return nil }
            unsafe X509_up_ref(other)
            return unsafe Certificate(owning: other)
        }
        unsafe shim_sk_X509_pop_free(others)
        let own = unsafe certificate.map(Certificate.init(owning:))
        let pair = unsafe key.map(PrivateKey.init(owning:))
        // Objects must not outlive their library context: PEM copies them into the default context.
        let copies = ([own].compactMap(\.self) + chain).compactMap(inDefaultContext)
        guard let own, let pair else { return .content((copies, nil)) }
        guard inDefaultContext(own) != nil, let pem = try? pair.pem(),
            let copy = try? PrivateKey(pem: pem, passphrase: nil)
        else { return .unsupported }
        return .content((copies, copy))
    }

    private static func inDefaultContext(_ certificate: Certificate) -> Certificate? {
        guard let pem = try? certificate.pem() else { return nil }
        return try? Certificate.all(pem: pem).first
    }

    private static func isUnsupported() -> Bool {
        var code = ERR_get_error()
        while code != 0 {
            if shim_ERR_GET_REASON(code) == ERR_R_UNSUPPORTED { return true }
            code = ERR_get_error()
        }
        return false
    }
}

/// Makes a context the default one of this thread while `body` runs: several old ciphers are looked up there, whatever context
/// their object has.
private func withDefault<Result>(_ context: OpaquePointer?, _ body: () -> Result) -> Result {
    guard let context = unsafe context else { return body() }
    let usual = unsafe OSSL_LIB_CTX_set0_default(context)
    defer { _ = unsafe OSSL_LIB_CTX_set0_default(usual) }
    return body()
}

/// Passes a temporary library context with OpenSSL's legacy provider to `body`; `nil` if the provider is not installed.
private func withLegacyContext<Result>(_ body: (OpaquePointer?) -> Result) -> Result {
    guard let context = unsafe OSSL_LIB_CTX_new() else { return body(nil) }
    defer { unsafe OSSL_LIB_CTX_free(context) }
    let legacy = unsafe OSSL_PROVIDER_load(context, "legacy")
    defer { if let legacy = unsafe legacy { unsafe OSSL_PROVIDER_unload(legacy) } }
    let usual = unsafe OSSL_PROVIDER_load(context, "default")
    defer { if let usual = unsafe usual { unsafe OSSL_PROVIDER_unload(usual) } }
    ERR_clear_error()
    return unsafe body(legacy == nil || usual == nil ? nil : context)
}
