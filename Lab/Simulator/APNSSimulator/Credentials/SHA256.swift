internal import COpenSSL

enum SHA256 {
    /// Returns the hash in lower-case hex.
    static func hex(_ bytes: [UInt8]) -> String {
        var digest = [UInt8](repeating: 0, count: 32)
        unsafe EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil)
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
