/// A provider token: a JWT that says which team we are ("Establishing a token-based connection to APNs").
struct ProviderToken: Sendable, Equatable {
    /// `header.claims.signature`, ASCII. A secret for as long as APNs takes it: an hour.
    let bytes: [UInt8]
    /// Counts the tokens of one source, from 1.
    let generation: UInt64

    /// - Parameters:
    ///   - issuedAt: Unix seconds.
    ///   - sign: ES256 over the bytes, in JOSE's form.
    init?(
        keyID: String, teamID: String, issuedAt: Int64, generation: UInt64, sign: ([UInt8]) -> [UInt8]?
    ) {
        let header = ProviderToken.base64URL(Array(#"{"alg":"ES256","kid":"\#(keyID)"}"#.utf8))
        let claims = ProviderToken.base64URL(Array(#"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#.utf8))
        let signed = header + [UInt8(ascii: ".")] + claims
        guard let signature = sign(signed) else { return nil }
        bytes = signed + [UInt8(ascii: ".")] + ProviderToken.base64URL(signature)
        self.generation = generation
    }

    /// base64url without padding (RFC 7515, 2).
    static func base64URL(_ bytes: [UInt8]) -> [UInt8] {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
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

extension ProviderToken: CustomStringConvertible, CustomReflectable {
    var description: String { "provider token \(generation)" }
    var customMirror: Mirror { Mirror(self, children: []) }
}

/// When a provider token is to be minted. Ages are told by a clock that nobody sets.
struct TokenSchedule: Sendable, Equatable {
    /// APNs refuses a token older than 60 minutes.
    static let oldest: Duration = .seconds(50 * 60)
    /// A session that opens with a token older than this would see it change while the session is young.
    static let oldestForNewSession: Duration = .seconds(30 * 60)
    /// APNs objects to a second token within 20 minutes (429 `TooManyProviderTokenUpdates`).
    static let between: Duration = .seconds(20 * 60)

    private(set) var mintedAt: ContinuousClock.Instant?
    /// The last time that a token was replaced within 20 minutes.
    private var hurriedAt: ContinuousClock.Instant?
    /// Until then APNs wants no other token.
    private var keptUntil: ContinuousClock.Instant?

    /// - Parameter mintedAt: of a token that is there already.
    init(mintedAt: ContinuousClock.Instant? = nil) { self.mintedAt = mintedAt }

    func isDue(forNewSession: Bool, now: ContinuousClock.Instant) -> Bool {
        guard let mintedAt else { return true }
        guard !isKept(now: now) else { return false }
        return now - mintedAt >= (forNewSession ? TokenSchedule.oldestForNewSession : TokenSchedule.oldest)
    }

    /// Whether a token that APNs calls expired may be replaced.
    ///
    /// Within 20 minutes only once: a young token can be too old because the clock was set meanwhile; a second one would be no better.
    func mayRenew(now: ContinuousClock.Instant) -> Bool {
        guard let mintedAt else { return true }
        guard !isKept(now: now) else { return false }
        if now - mintedAt >= TokenSchedule.between { return true }
        return hurriedAt.map { now - $0 >= TokenSchedule.between } ?? true
    }

    mutating func minted(now: ContinuousClock.Instant) {
        if let mintedAt, now - mintedAt < TokenSchedule.between { hurriedAt = now }
        mintedAt = now
    }

    /// APNs has seen too many tokens: this one is kept for 20 minutes, however old it gets.
    mutating func updatesRefused(now: ContinuousClock.Instant) {
        if !isKept(now: now) { keptUntil = now + TokenSchedule.between }
    }

    private func isKept(now: ContinuousClock.Instant) -> Bool { keptUntil.map { now < $0 } ?? false }
}
