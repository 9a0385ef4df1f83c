internal import JSONBytes
import Platform

/// A provider token: a JWT that identifies the team ("Establishing a token-based connection to APNs").
struct ProviderToken: Sendable, Equatable {
    /// `header.claims.signature` in ASCII. Secret while APNs accepts it: for an hour.
    let bytes: [UInt8]
    /// Counts the tokens of one source, from 1.
    let generation: UInt64
    /// Its `iat`, Unix seconds.
    let issuedAt: Int64
    /// By the monotonic clock of this process.
    let mintedAt: Instant

    /// Signs a new token.
    ///
    /// - Parameters:
    ///   - issuedAt: Unix seconds.
    ///   - sign: signs the bytes with ES256 and returns JOSE's form.
    init?(
        keyID: String, teamID: String, issuedAt: Int64, generation: UInt64, mintedAt: Instant = .now,
        sign: ([UInt8]) -> [UInt8]?
    ) {
        let signed = ProviderToken.signedPart(keyID: keyID, teamID: teamID, issuedAt: issuedAt)
        guard let signature = sign(signed) else { return nil }
        self.init(
            bytes: signed + [UInt8(ascii: ".")] + Base64.encode(signature, as: .url), issuedAt: issuedAt,
            generation: generation, mintedAt: mintedAt)
    }

    /// Wraps an existing token.
    init(bytes: [UInt8], issuedAt: Int64, generation: UInt64, mintedAt: Instant) {
        self.bytes = bytes
        self.issuedAt = issuedAt
        self.generation = generation
        self.mintedAt = mintedAt
    }

    /// Returns `header.claims`, which the signature covers.
    static func signedPart(keyID: String, teamID: String, issuedAt: Int64) -> [UInt8] {
        let header = Base64.encode(Array(#"{"alg":"ES256","kid":"\#(keyID)"}"#.utf8), as: .url)
        let claims = Base64.encode(Array(#"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#.utf8), as: .url)
        return header + [UInt8(ascii: ".")] + claims
    }
}

extension ProviderToken: CustomStringConvertible, CustomReflectable {
    var description: String { "provider token \(generation)" }
    var customMirror: Mirror { Mirror(self, children: []) }
}
