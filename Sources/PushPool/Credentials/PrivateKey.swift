internal import COpenSSL
internal import Platform

/// Owns one `EVP_PKEY`. Immutable; OpenSSL counts references to it with atomics.
@safe final class PrivateKey: @unchecked Sendable {  // Nothing is written to `handle` after init; signing only reads it.
    let handle: OpaquePointer

    /// Takes over a reference.
    init(owning handle: OpaquePointer) { unsafe self.handle = unsafe handle }

    deinit { unsafe EVP_PKEY_free(handle) }

    /// - Parameter passphrase: `nil` rejects an encrypted key with an error of its own.
    init(pem: [UInt8], passphrase: String?) throws(CredentialError) {
        let question = Question(passphrase.map { Array($0.utf8) })
        if let handle = unsafe PrivateKey.read(pem, question, in: nil) {
            unsafe self.handle = unsafe handle
        } else if question.wasAsked, passphrase != nil, let handle = unsafe PrivateKey.readLegacy(pem, question) {
            unsafe self.handle = unsafe handle
        } else if question.wasAsked, passphrase != nil, let cipher = PrivateKey.legacyCipher(ofTraditional: pem) {
            throw CredentialError(
                "the private key is encrypted with \(cipher), which OpenSSL no longer supports; "
                    + "expected another cipher, as `openssl pkcs8 -topk8` writes it",
                in: .privateKey)
        } else if question.wasAsked {
            throw CredentialError(
                passphrase == nil
                    ? "the private key is encrypted and no passphrase was given"
                    : "the private key's passphrase is wrong",
                in: .password)
        } else {
            throw CredentialError("no private key found; expected a PEM text with BEGIN PRIVATE KEY", in: .privateKey)
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

    /// Reads PKCS#8 with a cipher that only OpenSSL's legacy provider knows: PBE-MD5-DES, PBE-SHA1-RC2-40. The context is a
    /// temporary one, as for PKCS#12.
    private static func readLegacy(_ pem: [UInt8], _ question: Question) -> OpaquePointer? {
        guard let context = unsafe OSSL_LIB_CTX_new() else { return nil }
        defer { unsafe OSSL_LIB_CTX_free(context) }
        let legacy = unsafe OSSL_PROVIDER_load(context, "legacy")
        defer { if let legacy = unsafe legacy { unsafe OSSL_PROVIDER_unload(legacy) } }
        let usual = unsafe OSSL_PROVIDER_load(context, "default")
        defer { if let usual = unsafe usual { unsafe OSSL_PROVIDER_unload(usual) } }
        guard let handle = unsafe read(pem, question, in: context) else { return nil }
        // An object must not outlive its context: PEM copies it into the default one.
        guard let copy = try? unsafe PrivateKey(owning: handle).pem() else { return nil }
        return unsafe read(copy, Question(nil), in: nil)
    }

    /// The cipher of a key in OpenSSL's own format (`DEK-Info: DES-CBC,…`), if the default provider lacks it.
    private static func legacyCipher(ofTraditional pem: [UInt8]) -> String? {
        let text = String(decoding: pem, as: UTF8.self)
        guard let mark = text.firstRange(of: "DEK-Info: ") else { return nil }
        let name = text[mark.upperBound...].prefix { $0.isLetter || $0.isNumber || $0 == "-" }
        let known = ["AES-", "DES-EDE", "CAMELLIA-", "ARIA-"]
        return name.isEmpty || name.count > 20 || known.contains(where: name.hasPrefix) ? nil : String(name)
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
