internal import COpenSSL
internal import Sockets

/// Owns one `EVP_PKEY`. Immutable; OpenSSL counts references to it with atomics.
@safe final class PrivateKey: @unchecked Sendable {  // Nothing is written to `handle` after init; signing only reads it.
    let handle: OpaquePointer

    /// Takes over a reference.
    init(owning handle: OpaquePointer) { unsafe self.handle = unsafe handle }

    deinit { unsafe EVP_PKEY_free(handle) }

    /// - Parameter passphrase: `nil` rejects an encrypted key with an error of its own.
    init(pem: [UInt8], passphrase: String?) throws(CredentialError) {
        let question = Question(passphrase.map { Array($0.utf8) })
        ERR_clear_error()
        let handle = unsafe withMemoryBIO(pem) { bio in
            unsafe PEM_read_bio_PrivateKey(bio, nil, Question.answer, Unmanaged.passUnretained(question).toOpaque())
        }
        ERR_clear_error()
        if let handle = unsafe handle {
            unsafe self.handle = unsafe handle
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
