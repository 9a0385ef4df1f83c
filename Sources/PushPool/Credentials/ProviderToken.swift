import Clocks

/// A provider token: a JWT that says which team we are ("Establishing a token-based connection to APNs").
struct ProviderToken: Sendable, Equatable {
    /// `header.claims.signature`, ASCII. A secret for as long as APNs takes it: an hour.
    let bytes: [UInt8]
    /// Counts the tokens of one source, from 1.
    let generation: UInt64
    /// Its `iat`, Unix seconds.
    let issuedAt: Int64
    /// By this process's clock, which nobody sets.
    let mintedAt: Instant

    /// Signs a new one.
    ///
    /// - Parameters:
    ///   - issuedAt: Unix seconds.
    ///   - sign: ES256 over the bytes, in JOSE's form.
    init?(
        keyID: String, teamID: String, issuedAt: Int64, generation: UInt64, mintedAt: Instant = .now,
        sign: ([UInt8]) -> [UInt8]?
    ) {
        let signed = ProviderToken.signedPart(keyID: keyID, teamID: teamID, issuedAt: issuedAt)
        guard let signature = sign(signed) else { return nil }
        self.init(
            bytes: signed + [UInt8(ascii: ".")] + ProviderToken.base64URL(signature), issuedAt: issuedAt,
            generation: generation, mintedAt: mintedAt)
    }

    /// One that is there already.
    init(bytes: [UInt8], issuedAt: Int64, generation: UInt64, mintedAt: Instant) {
        self.bytes = bytes
        self.issuedAt = issuedAt
        self.generation = generation
        self.mintedAt = mintedAt
    }

    /// `header.claims`: what the signature is about.
    static func signedPart(keyID: String, teamID: String, issuedAt: Int64) -> [UInt8] {
        let header = base64URL(Array(#"{"alg":"ES256","kid":"\#(keyID)"}"#.utf8))
        let claims = base64URL(Array(#"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#.utf8))
        return header + [UInt8(ascii: ".")] + claims
    }

    private static let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)

    /// base64url without padding (RFC 7515, 2).
    static func base64URL(_ bytes: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((bytes.count * 4 + 2) / 3)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            var bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
            bits &= 0xFF_FFFF
            for place in 0...group.count { text.append(alphabet[bits >> (18 - 6 * place) & 63]) }
        }
        return text
    }
}

extension ProviderToken {
    /// The bytes behind base64url, `nil` where it is none.
    static func decodeBase64URL(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var bits = 0
        var count = 0
        for character in text {
            guard let value = alphabet.firstIndex(of: character) else { return nil }
            bits = (bits << 6 | value) & 0xFFFF
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(bits >> count & 0xFF))
            }
        }
        return bytes
    }
}

extension ProviderToken: CustomStringConvertible, CustomReflectable {
    var description: String { "provider token \(generation)" }
    var customMirror: Mirror { Mirror(self, children: []) }
}
