import Clocks
internal import JSONBytes

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
            bytes: signed + [UInt8(ascii: ".")] + Base64.encode(signature, as: .url), issuedAt: issuedAt,
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
        let header = Base64.encode(Array(#"{"alg":"ES256","kid":"\#(keyID)"}"#.utf8), as: .url)
        let claims = Base64.encode(Array(#"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#.utf8), as: .url)
        return header + [UInt8(ascii: ".")] + claims
    }
}

extension ProviderToken: CustomStringConvertible, CustomReflectable {
    var description: String { "provider token \(generation)" }
    var customMirror: Mirror { Mirror(self, children: []) }
}
