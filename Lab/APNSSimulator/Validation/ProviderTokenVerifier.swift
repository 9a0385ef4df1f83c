/// Verifies each distinct provider token once: an ES256 signature costs more than ten requests.
struct ProviderTokenVerifier {
    private static let cacheLimit = 1024

    private let keys: [(key: ProviderKey, signing: SigningKey)]
    private var known: [[UInt8]: ProviderToken] = [:]
    /// Hashes of all good tokens, so that each is counted once, also one that `known` has forgotten.
    private var seen: Set<Int> = []
    /// Good tokens that were never seen before, by key id, since somebody took them.
    var firstSeen: [String: Int] = [:]

    /// Throws on a key whose PEM cannot be read.
    init(keys: [ProviderKey]) throws(SimulatorError) {
        var readable: [(ProviderKey, SigningKey)] = []
        for key in keys { readable.append((key, try SigningKey(pem: key.pem))) }
        self.keys = readable
    }

    /// `nil` when it is malformed, of an unknown key or team, or wrongly signed. Its age is not looked at.
    mutating func verified(_ bytes: [UInt8]) -> ProviderToken? {
        if let token = known[bytes] { return token }
        guard let token = verify(bytes) else { return nil }
        if known.count >= ProviderTokenVerifier.cacheLimit { known.removeAll() }
        known[bytes] = token
        if seen.insert(bytes.hashValue).inserted { firstSeen[token.key.keyID, default: 0] += 1 }
        return token
    }

    private func verify(_ bytes: [UInt8]) -> ProviderToken? {
        // An ES256 token of APNs has less than 300 bytes.
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard bytes.count <= 4096, parts.count == 3,
            let header = Base64URL.decode(parts[0]).flatMap(FlatJSON.init),
            let claims = Base64URL.decode(parts[1]).flatMap(FlatJSON.init),
            let signature = Base64URL.decode(parts[2]),
            header.string("alg") == "ES256", let issuedAt = claims.integer("iat"), issuedAt >= 0,
            let known = keys.first(where: { $0.key.keyID == header.string("kid") }),
            known.key.teamID == claims.string("iss")
        else { return nil }
        let signed = bytes[..<(parts[2].startIndex - 1)]
        return known.signing.verifies(signature, of: Array(signed)) ? ProviderToken(key: known.key, issuedAt: issuedAt) : nil
    }
}

extension ProviderKey {
    /// How the two numbers of a signature are written.
    public enum SignatureForm: Sendable {
        /// 64 bytes r || s (RFC 7518, 3.4).
        case jose
        /// As Apple's shell sample does with `openssl dgst`.
        case der
    }

    /// A provider token signed with this key, for tests and other tools. Needs the private key.
    ///
    /// - Parameter issuedAt: Unix seconds.
    public func token(issuedAt: Int64, form: SignatureForm = .jose) throws(SimulatorError) -> String {
        let header = #"{"alg":"ES256","kid":"\#(keyID)"}"#
        let claims = #"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#
        let signed = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        let der = try SigningKey(pem: pem).signature(of: Array(signed.utf8))
        guard let signature = form == .der ? der : ECDSASignature(der: der)?.jose else {
            throw SimulatorError("\(self): the signature is no pair of numbers")
        }
        return signed + "." + Base64URL.encode(signature)
    }
}
