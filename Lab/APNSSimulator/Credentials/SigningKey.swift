internal import COpenSSL

/// One EC key of OpenSSL: makes, reads, signs, verifies. Used on the thread that made it.
final class SigningKey {
    let key: OpaquePointer

    /// A new P-256 key.
    init() throws(SimulatorError) {
        guard let key = shim_EVP_EC_gen_P256() else { throw SimulatorError("OpenSSL cannot make a P-256 key") }
        self.key = key
    }

    /// Reads a private key, or a public one, which then only verifies.
    init(pem: [UInt8]) throws(SimulatorError) {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let key =
            withMemoryBIO(reading: pem) { PEM_read_bio_PrivateKey($0, nil, noPassphrase, nil) }
            ?? withMemoryBIO(reading: pem) { PEM_read_bio_PUBKEY($0, nil, noPassphrase, nil) }
        guard let key else { throw SimulatorError("a provider key is no PEM of a private or public key") }
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    /// PKCS#8, as a `.p8` is.
    var privatePEM: [UInt8] {
        bytesWritten { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
    }

    var publicPEM: [UInt8] {
        bytesWritten { PEM_write_bio_PUBKEY($0, key) }
    }

    /// ECDSA with SHA-256, in DER.
    func signature(of bytes: [UInt8]) throws(SimulatorError) -> [UInt8] {
        let context = EVP_MD_CTX_new()
        defer { EVP_MD_CTX_free(context) }
        var signature = [UInt8](repeating: 0, count: 128)
        var length = signature.count
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1,
            EVP_DigestSign(context, &signature, &length, bytes, bytes.count) == 1
        else {
            ERR_clear_error()
            throw SimulatorError("this key cannot sign; is it a public one?")
        }
        return Array(signature[..<length])
    }

    /// Takes both forms: APNs does, as Apple's own samples show.
    func verifies(_ signature: [UInt8], of bytes: [UInt8]) -> Bool {
        if let der = ECDSASignature(jose: signature)?.der, verifies(der: der, of: bytes) { return true }
        return verifies(der: signature, of: bytes)
    }

    private func verifies(der: [UInt8], of bytes: [UInt8]) -> Bool {
        let context = EVP_MD_CTX_new()
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1
            && EVP_DigestVerify(context, der, der.count, bytes, bytes.count) == 1
    }
}

/// SHA-256 in lower-case hex.
func sha256Hex(_ bytes: [UInt8]) -> String {
    var digest = [UInt8](repeating: 0, count: 32)
    EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil)
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
}

func withMemoryBIO<Result>(reading bytes: [UInt8], _ body: (OpaquePointer?) -> Result) -> Result {
    bytes.withUnsafeBytes { raw in
        let bio = BIO_new_mem_buf(raw.baseAddress, CInt(raw.count))
        defer { BIO_free(bio) }
        return body(bio)
    }
}

/// What a writer of OpenSSL writes; empty when it fails.
func bytesWritten(_ write: (OpaquePointer?) -> CInt) -> [UInt8] {
    let bio = BIO_new(BIO_s_mem())
    defer { BIO_free(bio) }
    guard write(bio) == 1 else { return [] }
    var data: UnsafeMutablePointer<CChar>?
    let length = shim_BIO_get_mem_data(bio, &data)
    guard let data, length > 0 else { return [] }
    return UnsafeRawBufferPointer(start: data, count: length).map { $0 }
}

/// Without it OpenSSL would ask on the terminal.
private let noPassphrase:
    @convention(c) (
        UnsafeMutablePointer<CChar>?, CInt, CInt, UnsafeMutableRawPointer?
    ) -> CInt = { _, _, _, _ in -1 }
