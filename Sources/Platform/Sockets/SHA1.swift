internal import COpenSSL

/// SHA-1 (FIPS 180-4). Use it for names, never for secrets.
public enum SHA1 {
    /// Returns the digest of a text in lowercase hexadecimal.
    public static func hexadecimal(of text: String) -> String {
        var digest = [UInt8](repeating: 0, count: 20)
        let isDone = unsafe Array(text.utf8).withUnsafeBytes { bytes in
            unsafe EVP_Digest(bytes.baseAddress, bytes.count, &digest, nil, EVP_sha1(), nil) == 1
        }
        precondition(isDone, "OpenSSL has no SHA-1")
        return digest.reduce(into: "") { $0 += ($1 < 16 ? "0" : "") + String($1, radix: 16) }
    }
}
