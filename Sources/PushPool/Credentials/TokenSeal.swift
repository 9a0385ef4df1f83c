internal import COpenSSL
internal import Platform

/// Encrypts provider tokens for processes with the same signing key: AES-256-GCM, with a key that HKDF derives from it.
///
/// A place that stores sealed tokens cannot use them, and cannot exchange the tokens of two keys.
struct TokenSeal: Sendable {
    private static let nonceBytes = 12
    private static let tagBytes = 16
    /// A token with its history has fewer than 1000 bytes.
    private static let mostBytes = 4096

    private let key: [UInt8]
    /// Not encrypted, but protected.
    private let name: [UInt8]

    /// - Parameters:
    ///   - secret: the private part of the signing key.
    ///   - name: identifies the signing key.
    init(secret: [UInt8], name: String) {
        self.name = Array(name.utf8)
        key = TokenSeal.derive(secret, for: Array("gaplessd provider token 1 \(name)".utf8))
    }

    /// HKDF with SHA-256, without salt, for one block of 32 bytes (RFC 5869).
    static func derive(_ secret: [UInt8], for purpose: [UInt8]) -> [UInt8] {
        let extracted = HMACSHA256.code(of: secret, key: [UInt8](repeating: 0, count: 32))
        return HMACSHA256.code(of: purpose + [1], key: extracted)
    }

    /// Returns a name of a token that does not reveal it.
    func id(of token: [UInt8]) -> String { String(HMACSHA256.hexadecimal(of: token, key: key).prefix(16)) }

    /// Returns the nonce, the encrypted text and its tag. `nil` only if OpenSSL fails.
    func seal(_ text: [UInt8]) -> [UInt8]? {
        ERR_clear_error()
        defer { ERR_clear_error() }
        var nonce = [UInt8](repeating: 0, count: Self.nonceBytes)
        guard unsafe RAND_bytes(&nonce, CInt(nonce.count)) == 1 else { return nil }
        let context = unsafe EVP_CIPHER_CTX_new()
        defer { unsafe EVP_CIPHER_CTX_free(context) }
        var (sealed, tag) = ([UInt8](repeating: 0, count: text.count + 1), [UInt8](repeating: 0, count: Self.tagBytes))
        var (count, rest) = (CInt(0), CInt(0))
        guard unsafe EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
            unsafe EVP_EncryptUpdate(context, nil, &count, name, CInt(name.count)) == 1,
            unsafe EVP_EncryptUpdate(context, &sealed, &count, text, CInt(text.count)) == 1, Int(count) == text.count,
            unsafe EVP_EncryptFinal_ex(context, nil, &rest) == 1,
            unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, CInt(tag.count), &tag) == 1
        else { return nil }
        return nonce + sealed.prefix(text.count) + tag
    }

    /// Returns the text, or `nil` if another key has sealed it or any byte was changed.
    func open(_ sealed: [UInt8]) -> [UInt8]? {
        let length = sealed.count - Self.nonceBytes - Self.tagBytes
        guard (0...Self.mostBytes).contains(length) else { return nil }
        ERR_clear_error()
        defer { ERR_clear_error() }
        let nonce = Array(sealed.prefix(Self.nonceBytes))
        let encrypted = Array(sealed.dropFirst(Self.nonceBytes).prefix(length))
        var tag = Array(sealed.suffix(Self.tagBytes))
        let context = unsafe EVP_CIPHER_CTX_new()
        defer { unsafe EVP_CIPHER_CTX_free(context) }
        var (text, count, rest) = ([UInt8](repeating: 0, count: length + 1), CInt(0), CInt(0))
        guard unsafe EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1,
            unsafe EVP_DecryptUpdate(context, nil, &count, name, CInt(name.count)) == 1,
            unsafe EVP_DecryptUpdate(context, &text, &count, encrypted, CInt(encrypted.count)) == 1, Int(count) == length,
            unsafe EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, CInt(tag.count), &tag) == 1,
            unsafe EVP_DecryptFinal_ex(context, nil, &rest) == 1
        else { return nil }
        return Array(text.prefix(length))
    }
}
