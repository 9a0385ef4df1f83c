internal import COpenSSL
internal import JSONBytes
internal import Platform

/// A `.p8` provider signing key with the key id and the team id of its tokens.
struct SigningKey: Sendable {
    let keyID: String
    let teamID: String
    private let key: PrivateKey
    /// SHA-256 of the public key: two keys with the same id differ in it.
    let fingerprint: [UInt8]

    init(p8PEM: [UInt8], keyID: String, teamID: String) throws(CredentialError) {
        try SigningKey.check(keyID, "key ID")
        try SigningKey.check(teamID, "team ID")
        let key = try SigningKey.key(p8PEM)
        guard let fingerprint = SigningKey.fingerprint(ofP256: key) else {
            throw CredentialError("the signing key is of another kind; expected an EC key on the curve P-256, as from Apple")
        }
        self.keyID = keyID
        self.teamID = teamID
        self.key = key
        self.fingerprint = fingerprint
        // The first signature is made here, where the operator still sees a failure.
        if sign([0]) == nil { throw CredentialError("the signing key cannot sign; expected a whole EC key on the curve P-256") }
    }

    /// Apple encrypts no signing key, so there is no setting for a passphrase.
    private static func key(_ p8PEM: [UInt8]) throws(CredentialError) -> PrivateKey {
        do {
            return try PrivateKey(pem: p8PEM, passphrase: nil)
        } catch  where error.part == .password {
            throw CredentialError("the signing key is encrypted; expected an unencrypted one, as Apple issues it")
        }
    }

    /// Both ids have 10 letters and digits ("Establishing a token-based connection to APNs").
    private static func check(_ id: String, _ name: String) throws(CredentialError) {
        let isGood = id.utf8.allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
        }
        if id.utf8.count != 10 || !isGood {
            throw CredentialError("the \(name) of \(id.count) characters is invalid; expected 10 letters and digits")
        }
    }

    private static func fingerprint(ofP256 key: PrivateKey) -> [UInt8]? {
        defer { ERR_clear_error() }
        var name = [CChar](repeating: 0, count: 80)
        var length = 0
        guard unsafe EVP_PKEY_get_group_name(key.handle, &name, name.count, &length) == 1 else { return nil }
        guard ["prime256v1", "P-256"].contains(text(name)) else { return nil }
        var der: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_PUBKEY(key.handle, &der)
        guard count > 0, let der = unsafe der else { return nil }
        defer { unsafe CRYPTO_free(der, nil, 0) }
        return unsafe sha256(Array(UnsafeBufferPointer(start: der, count: Int(count))))
    }

    private static func text(_ name: [CChar]) -> String {
        String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    /// Seals tokens for other processes with this key. `nil` if OpenSSL does not return the private part.
    func seal() -> TokenSeal? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        var number: OpaquePointer?
        guard unsafe EVP_PKEY_get_bn_param(key.handle, "priv", &number) == 1 else { return nil }
        defer { unsafe BN_clear_free(number) }
        var secret = [UInt8](repeating: 0, count: 32)
        guard unsafe BN_bn2binpad(number, &secret, 32) == 32 else { return nil }
        return TokenSeal(secret: secret, name: fileName)
    }

    /// Signs with ES256 in JOSE's form: r and s, 32 bytes each, left-padded (RFC 7518, 3.4). Returns `nil` if OpenSSL fails.
    func sign(_ message: [UInt8]) -> [UInt8]? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        let context = unsafe EVP_MD_CTX_new()
        defer { unsafe EVP_MD_CTX_free(context) }
        guard unsafe EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key.handle) == 1 else { return nil }
        var der = [UInt8](repeating: 0, count: 128)
        var count = der.count
        guard unsafe EVP_DigestSign(context, &der, &count, message, message.count) == 1 else { return nil }
        return unsafe der.withUnsafeBufferPointer { bytes in
            var next = bytes.baseAddress
            guard let signature = unsafe d2i_ECDSA_SIG(nil, &next, count) else { return nil }
            defer { unsafe ECDSA_SIG_free(signature) }
            var joined = [UInt8](repeating: 0, count: 64)
            let isWritten = unsafe joined.withUnsafeMutableBufferPointer { joined in
                guard let base = joined.baseAddress else { return false }
                return unsafe BN_bn2binpad(ECDSA_SIG_get0_r(signature), base, 32) == 32
                    && BN_bn2binpad(ECDSA_SIG_get0_s(signature), base + 32, 32) == 32
            }
            return isWritten ? joined : nil
        }
    }

    /// Whether `signature`, in JOSE's form, was made by this key.
    func verify(_ signature: [UInt8], of message: [UInt8]) -> Bool {
        guard signature.count == 64 else { return false }
        ERR_clear_error()
        defer { ERR_clear_error() }
        let parsed = unsafe ECDSA_SIG_new()
        defer { unsafe ECDSA_SIG_free(parsed) }
        let r = unsafe BN_bin2bn(Array(signature[..<32]), 32, nil)
        let s = unsafe BN_bin2bn(Array(signature[32...]), 32, nil)
        guard unsafe ECDSA_SIG_set0(parsed, r, s) == 1 else { return false }
        var der: UnsafeMutablePointer<UInt8>?
        let count = unsafe i2d_ECDSA_SIG(parsed, &der)
        guard count > 0, let der = unsafe der else { return false }
        defer { unsafe CRYPTO_free(der, nil, 0) }
        let context = unsafe EVP_MD_CTX_new()
        defer { unsafe EVP_MD_CTX_free(context) }
        guard unsafe EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key.handle) == 1 else { return false }
        return unsafe EVP_DigestVerify(context, der, Int(count), message, message.count) == 1
    }
}

extension SigningKey {
    /// The name of the token's file: two keys with the same id have different fingerprints.
    var fileName: String { "\(teamID)-\(keyID)-\(hexadecimal(fingerprint.prefix(8)))" }

    /// Whether this key has signed the token with this date.
    func hasSigned(_ saved: SavedToken) -> Bool {
        let signed = ProviderToken.signedPart(self, issuedAt: saved.issuedAt)
        guard saved.bytes.count > signed.count + 1, saved.bytes.starts(with: signed + [UInt8(ascii: ".")]),
            let signature = Base64.decode(saved.bytes[(signed.count + 1)...], as: .url)
        else { return false }
        return verify(signature, of: signed)
    }
}
