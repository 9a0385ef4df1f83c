import JSONBytes

/// Verifies each distinct provider token once. An ES256 verification costs more than ten requests.
struct ProviderTokenVerifier {
    private static let cacheLimit = 1024

    private let keys: [(key: ProviderKey, signing: SigningKey)]
    private var known: [[UInt8]: ProviderToken] = [:]
    /// Hashes of all valid tokens, to count each token once, also after its removal from `known`.
    private var seen: Set<Int> = []
    /// Number of new valid tokens by key id, until the owner resets it.
    var firstSeen: [String: Int] = [:]

    /// - Throws: if the PEM of a key cannot be read.
    init(keys: [ProviderKey]) throws(SimulatorError) {
        var readable: [(ProviderKey, SigningKey)] = []
        for key in keys { readable.append((key, try SigningKey(pem: key.pem))) }
        self.keys = readable
    }

    /// Returns `nil` for a token that is malformed, has an unknown key or team, or a wrong signature. Ignores its age.
    mutating func verified(_ bytes: [UInt8]) -> ProviderToken? {
        if let token = known[bytes] { return token }
        guard let token = verify(bytes) else { return nil }
        if known.count >= ProviderTokenVerifier.cacheLimit { known.removeAll() }
        known[bytes] = token
        if seen.insert(bytes.hashValue).inserted { firstSeen[token.key.keyID, default: 0] += 1 }
        return token
    }

    private func verify(_ bytes: [UInt8]) -> ProviderToken? {
        // An ES256 token has less than 300 bytes.
        let parts = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard bytes.count <= 4096, parts.count == 3,
            let header = Self.json(parts[0]), let claims = Self.json(parts[1]),
            let signature = Base64.decode(parts[2], as: .url), header["alg"]?.stringValue == "ES256",
            // Some libraries write `iat` with a fraction.
            let issuedAt = claims["iat"]?.doubleValue, (0..<1e15).contains(issuedAt),
            let known = keys.first(where: { $0.key.keyID == header["kid"]?.stringValue }),
            known.key.teamID == claims["iss"]?.stringValue
        else { return nil }
        let signed = bytes[..<(parts[2].startIndex - 1)]
        guard known.signing.verifies(signature, of: Array(signed)) else { return nil }
        return ProviderToken(key: known.key, issuedAt: Int64(issuedAt))
    }

    private static func json(_ part: ArraySlice<UInt8>) -> JSONValue? {
        Base64.decode(part, as: .url).flatMap { try? JSONValue.parse($0) }
    }
}

extension ProviderKey {
    /// The encoding of a signature.
    public enum SignatureForm: Sendable {
        /// 64 bytes r || s (RFC 7518, 3.4).
        case jose
        /// DER, as in Apple's shell sample with `openssl dgst`.
        case der
    }

    /// Returns a provider token signed with this key, which must be private.
    ///
    /// - Parameter issuedAt: Unix seconds.
    public func token(issuedAt: Int64, form: SignatureForm = .jose) throws(SimulatorError) -> String {
        let header = #"{"alg":"ES256","kid":"\#(keyID)"}"#
        let claims = #"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#
        return try token(header: header, claims: claims, form: form)
    }

    func token(header: String, claims: String, form: SignatureForm = .jose) throws(SimulatorError) -> String {
        func encode(_ bytes: [UInt8]) -> String { String(decoding: Base64.encode(bytes, as: .url), as: UTF8.self) }
        let signed = encode(Array(header.utf8)) + "." + encode(Array(claims.utf8))
        let der = try SigningKey(pem: pem).signature(of: Array(signed.utf8))
        guard let signature = form == .der ? der : ECDSASignature(der: der)?.jose else {
            throw SimulatorError("\(self): the signature is not a pair of numbers")
        }
        return signed + "." + encode(signature)
    }
}

/// A verified provider token.
struct ProviderToken {
    var key: ProviderKey
    /// Unix seconds.
    var issuedAt: Int64
}

/// The rules for provider tokens on one connection ("Establishing a token-based connection to APNs").
struct ProviderTokenGate {
    /// Seconds. A token with an older `iat` gets ExpiredProviderToken.
    static let lifetime: Int64 = 3600
    /// Seconds between two different tokens of one connection.
    static let updateInterval: Int64 = 1200
    /// Seconds by which `iat` may be in the future. Apple documents no value.
    static let clockTolerance: Int64 = 300

    let environment: PushEnvironment
    /// The key of the token in use.
    private(set) var key: ProviderKey?
    /// The number of tokens used so far.
    private(set) var generation = 0
    /// The token in use, as in the header.
    private var current: [UInt8] = []
    private var issuedAt: Int64 = 0
    private var adoptedAt: Int64 = 0
    /// A token has expired: every later request of the connection gets ExpiredProviderToken.
    private var isWedged = false
    private var refusesUntil: Int64 = .min

    init(environment: PushEnvironment) { self.environment = environment }

    /// Returns the fault of a token, or `nil`.
    ///
    /// - Parameters:
    ///   - text: the header without `bearer `.
    ///   - now: Unix seconds.
    mutating func fault(
        in text: Span<UInt8>, _ verifier: inout ProviderTokenVerifier, now: Int64
    ) -> Reason? {
        if isWedged { return .expiredProviderToken }
        if now < refusesUntil { return .tooManyProviderTokenUpdates }
        if key != nil && text.equals(current) { return expiry(issuedAt, now) }
        let text = unsafe text.withUnsafeBufferPointer { unsafe Array($0) }
        guard let token = verifier.verified(text) else { return .invalidProviderToken }
        return expiry(token.issuedAt, now) ?? keyFault(token, now) ?? adopt(token, text, now)
    }

    private mutating func expiry(_ issuedAt: Int64, _ now: Int64) -> Reason? {
        guard now - issuedAt > ProviderTokenGate.lifetime else { return nil }
        isWedged = true
        return .expiredProviderToken
    }

    private func keyFault(_ token: ProviderToken, _ now: Int64) -> Reason? {
        if token.issuedAt - now > ProviderTokenGate.clockTolerance { return .invalidProviderToken }
        if let only = token.key.environment, only != environment { return .badEnvironmentKeyIdInToken }
        guard let key else { return nil }
        if token.key.teamID != key.teamID { return .invalidProviderToken }
        return token.key.isRelated(to: key) ? nil : .unrelatedKeyIdInToken
    }

    private mutating func adopt(_ token: ProviderToken, _ text: [UInt8], _ now: Int64) -> Reason? {
        if key != nil && now - adoptedAt < ProviderTokenGate.updateInterval {
            refusesUntil = adoptedAt + ProviderTokenGate.updateInterval
            return .tooManyProviderTokenUpdates
        }
        key = token.key
        current = text
        generation += 1
        issuedAt = token.issuedAt
        adoptedAt = now
        return nil
    }
}
