internal import COpenSSL

/// An EC key of OpenSSL. Used on the thread that made it.
@safe final class SigningKey {
    let key: OpaquePointer

    /// Makes a P-256 key.
    init() throws(SimulatorError) {
        guard let key = unsafe shim_EVP_EC_gen_P256() else { throw SimulatorError("OpenSSL cannot make a P-256 key") }
        unsafe self.key = key
    }

    /// Reads a private key, or a public key, which only verifies.
    init(pem: [UInt8]) throws(SimulatorError) {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let key =
            unsafe MemoryBIO.read(pem) { unsafe PEM_read_bio_PrivateKey($0, nil, noPassphrase, nil) }
            ?? MemoryBIO.read(pem) { unsafe PEM_read_bio_PUBKEY($0, nil, noPassphrase, nil) }
        guard let key = unsafe key else { throw SimulatorError("a provider key is not a PEM private or public key") }
        unsafe self.key = key
    }

    deinit { unsafe EVP_PKEY_free(key) }

    /// PKCS#8, the format of a `.p8` file.
    var privatePEM: [UInt8] {
        unsafe MemoryBIO.written { unsafe PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
    }

    var publicPEM: [UInt8] {
        unsafe MemoryBIO.written { unsafe PEM_write_bio_PUBKEY($0, key) }
    }

    /// Signs with ECDSA and SHA-256. Returns DER.
    func signature(of bytes: [UInt8]) throws(SimulatorError) -> [UInt8] {
        let context = unsafe EVP_MD_CTX_new()
        defer { unsafe EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 128)
        var length = signature.count
        guard unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            unsafe EVP_DigestSign(context, &signature, &length, bytes, bytes.count) == 1
        else {
            ERR_clear_error()
            throw SimulatorError("this key cannot sign; is it a public one?")
        }
        return Array(signature[..<length])
    }

    /// Accepts both forms, as APNs does: Apple's samples use both.
    func verifies(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        if let der = ECDSASignature(jose: signature)?.der, verifies(der: der, of: bytes) { return true }
        return verifies(der: signature, of: bytes)
    }

    private func verifies(der: [UInt8], of bytes: [UInt8]) -> Bool {
        let context = unsafe EVP_MD_CTX_new()
        defer {
            unsafe EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        return unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, der, der.count, bytes, bytes.count) == 1
    }
}

/// Prevents OpenSSL from asking on the terminal.
private let noPassphrase:
    @convention(c) (
        UnsafeMutablePointer<CChar>?, CInt, CInt, UnsafeMutableRawPointer?
    ) -> CInt = { _, _, _, _ in -1 }
