internal import COpenSSL

/// HMAC with SHA-256 (RFC 2104, FIPS 180-4).
public enum HMACSHA256 {
    /// Returns the code of a message in lowercase hexadecimal.
    public static func hexadecimal(of message: [UInt8], key: [UInt8]) -> String {
        Platform.hexadecimal(code(of: message, key: key))
    }

    /// Returns the code of a message, 32 bytes.
    public static func code(of message: [UInt8], key: [UInt8]) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: 32)
        var length: UInt32 = 0
        // A pointer without a key would mean: the key of the last call.
        let key = key.isEmpty ? [0] : key
        let isDone = unsafe message.withUnsafeBytes { bytes in
            unsafe HMAC(
                EVP_sha256(), key, CInt(key.count), bytes.baseAddress?.assumingMemoryBound(to: UInt8.self), bytes.count, &code,
                &length) != nil
        }
        precondition(isDone && length == 32, "OpenSSL has no SHA-256")
        return code
    }
}

/// SHA-1 (FIPS 180-4). Use it for names, never for secrets.
public enum SHA1 {
    /// Returns the digest of a text in lowercase hexadecimal.
    public static func hexadecimal(of text: String) -> String {
        var digest = [UInt8](repeating: 0, count: 20)
        let isDone = unsafe Array(text.utf8).withUnsafeBytes { bytes in
            unsafe EVP_Digest(bytes.baseAddress, bytes.count, &digest, nil, EVP_sha1(), nil) == 1
        }
        precondition(isDone, "OpenSSL has no SHA-1")
        return Platform.hexadecimal(digest)
    }
}

package func sha256(_ bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    let isDone = unsafe bytes.withUnsafeBytes { bytes in
        unsafe EVP_Digest(bytes.baseAddress, bytes.count, &digest, nil, EVP_sha256(), nil) == 1
    }
    precondition(isDone, "OpenSSL has no SHA-256")
    return digest
}

package func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
