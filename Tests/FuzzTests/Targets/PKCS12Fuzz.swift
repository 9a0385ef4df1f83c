@testable import PushPool

/// PKCS#12 files, without and with a password.
enum PKCS12Fuzz {
    static func run(_ bytes: [UInt8]) {
        if hasLargeCount(bytes) { return }
        for password in ["", "secret"] {
            _ = Credential.fault(ofPKCS12: bytes, password: password)
            _ = Credential.facts(ofPKCS12: bytes, password: password)
        }
    }

    /// Whether an iteration count may have more than 16 bits, which would take hours. It is the integer behind the salt, an octet
    /// string.
    private static func hasLargeCount(_ bytes: [UInt8]) -> Bool {
        bytes.indices.dropLast(4).contains { place in
            let next = place + 2 + Int(bytes[place + 1])
            guard bytes[place] == 4, next + 1 < bytes.count, bytes[next] == 2 else { return false }
            return bytes[next + 1] > 2
        }
    }
}
