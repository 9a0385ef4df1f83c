internal import Glibc
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

/// The content of a token file: the token and its history for the next process.
struct SavedToken: Equatable {
    var bytes: [UInt8]
    /// Unix seconds, like all times here: monotonic clocks of two processes cannot be compared across a reboot.
    var issuedAt: Int64
    /// The last time at which a token was replaced within 20 minutes.
    var hurriedAt: Int64?
    /// The time until which APNs accepts no other token.
    var keptUntil: Int64?

    private static let title = "gaplessd provider token 1"

    init(bytes: [UInt8], issuedAt: Int64, hurriedAt: Int64? = nil, keptUntil: Int64? = nil) {
        self.bytes = bytes
        self.issuedAt = issuedAt
        self.hurriedAt = hurriedAt
        self.keptUntil = keptUntil
    }

    /// Returns `nil` for any other text, such as a partial file or another version's.
    init?(text: [UInt8]) {
        let lines = String(decoding: text, as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
        guard lines.count == 6, lines[0] == Self.title, lines[5].isEmpty else { return nil }
        var values: [Substring] = []
        for (line, name) in zip(lines[1...4], ["issued ", "hurried ", "kept ", "token "]) {
            guard line.hasPrefix(name) else { return nil }
            values.append(line.dropFirst(name.count))
        }
        guard let issuedAt = Int64(values[0]), let hurriedAt = Int64(values[1]), let keptUntil = Int64(values[2]),
            [issuedAt, hurriedAt, keptUntil].allSatisfy({ (0...253_402_300_799).contains($0) })
        else { return nil }
        self.init(
            bytes: Array(values[3].utf8), issuedAt: issuedAt, hurriedAt: hurriedAt == 0 ? nil : hurriedAt,
            keptUntil: keptUntil == 0 ? nil : keptUntil)
    }

    var text: [UInt8] {
        Array("\(Self.title)\nissued \(issuedAt)\nhurried \(hurriedAt ?? 0)\nkept \(keptUntil ?? 0)\ntoken ".utf8) + bytes
            + [UInt8(ascii: "\n")]
    }
}

/// Decides when a provider token is signed. It measures ages by the monotonic clock.
///
/// | age of the token | due | due for a new session | may be renewed after `ExpiredProviderToken` |
/// |---|---|---|---|
/// | none | yes | yes | yes |
/// | 0 to 20 minutes | no | no | once within 20 minutes |
/// | 20 to 30 minutes | no | no | yes |
/// | 30 to 50 minutes | no | yes | yes |
/// | 50 minutes or more | yes | yes | yes |
/// | any, within 20 minutes of `TooManyProviderTokenUpdates` | no | no | no |
struct TokenSchedule: Sendable, Equatable {
    /// APNs rejects a token older than 60 minutes.
    static let oldest: Duration = .seconds(50 * 60)
    /// A session must not see its token change while it is young: older tokens are renewed before it opens.
    static let oldestForNewSession: Duration = .seconds(30 * 60)
    /// APNs rejects a second token within 20 minutes (429 `TooManyProviderTokenUpdates`).
    static let between: Duration = .seconds(20 * 60)

    /// The most seconds by which a stored token may be dated in the future: clocks are adjusted slightly.
    static let mostAhead: Int64 = 60

    private(set) var mintedAt: Instant?
    /// The last time at which a token was replaced within 20 minutes.
    private(set) var hurriedAt: Instant?
    /// The time until which APNs accepts no other token.
    private(set) var keptUntil: Instant?

    /// - Parameter mintedAt: the time of an existing token.
    init(mintedAt: Instant? = nil) { self.mintedAt = mintedAt }

    /// Continues the schedule of a stored token. Returns `nil` if the token is too old, or dated in the future so that its age
    /// is unknown.
    init?(_ saved: SavedToken, at moment: Moment) {
        let age = moment.unixTime - saved.issuedAt
        guard age >= -TokenSchedule.mostAhead else { return nil }
        mintedAt = moment.now - .seconds(max(0, age))
        if let hurriedAt = saved.hurriedAt, hurriedAt <= moment.unixTime {
            self.hurriedAt = moment.now - .seconds(moment.unixTime - hurriedAt)
        }
        if let kept = saved.keptUntil {
            keptUntil = moment.now + min(.seconds(kept - moment.unixTime), TokenSchedule.between)
        }
        if .seconds(age) >= TokenSchedule.oldest && !isKept(now: moment.now) { return nil }
    }

    /// Adopts the history that another process has stored for the same token.
    mutating func learn(from other: TokenSchedule) {
        if let kept = other.keptUntil { keptUntil = max(keptUntil ?? kept, kept) }
        if let hurried = other.hurriedAt { hurriedAt = max(hurriedAt ?? hurried, hurried) }
    }

    /// Returns the token with its history for the next process.
    func saved(_ token: ProviderToken, at moment: Moment) -> SavedToken {
        func unixTime(_ instant: Instant?) -> Int64? {
            instant.map { moment.unixTime + ($0 - moment.now).components.seconds }
        }
        return SavedToken(
            bytes: token.bytes, issuedAt: token.issuedAt, hurriedAt: unixTime(hurriedAt), keptUntil: unixTime(keptUntil))
    }

    func isDue(forNewSession: Bool, now: Instant) -> Bool {
        guard let mintedAt else { return true }
        guard !isKept(now: now) else { return false }
        return now - mintedAt >= (forNewSession ? TokenSchedule.oldestForNewSession : TokenSchedule.oldest)
    }

    /// Whether a token that APNs calls expired may be replaced.
    ///
    /// Only once within 20 minutes: a clock that was adjusted can make one young token too old; a second replacement would not
    /// help.
    func mayRenew(now: Instant) -> Bool {
        guard let mintedAt else { return true }
        guard !isKept(now: now) else { return false }
        if now - mintedAt >= TokenSchedule.between { return true }
        return hurriedAt.map { now - $0 >= TokenSchedule.between } ?? true
    }

    mutating func minted(now: Instant) {
        if let mintedAt, now - mintedAt < TokenSchedule.between { hurriedAt = now }
        mintedAt = now
    }

    /// The token has replaced one that APNs called expired, or cannot be replaced: no other replacement for 20 minutes.
    mutating func renewed(now: Instant) { hurriedAt = now }

    /// Keeps the current token for 20 minutes, whatever its age, because APNs has seen too many.
    mutating func updatesRefused(now: Instant) {
        if !isKept(now: now) { keptUntil = now + TokenSchedule.between }
    }

    func isKept(now: Instant) -> Bool { keptUntil.map { now < $0 } ?? false }
}

/// The present time by the monotonic clock and by the clock that APNs reads.
struct Moment {
    var now: Instant
    /// Unix seconds.
    var unixTime: Int64

    init(now: Instant = .now, unixTime: Int64 = Int64(time(nil))) {
        self.now = now
        self.unixTime = unixTime
    }
}
