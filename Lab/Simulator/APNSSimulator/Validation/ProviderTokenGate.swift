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
