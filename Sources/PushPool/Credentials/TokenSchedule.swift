import Clocks
internal import Glibc

/// When a provider token is to be minted. Ages are told by a clock that nobody sets.
struct TokenSchedule: Sendable, Equatable {
    /// APNs refuses a token older than 60 minutes.
    static let oldest: Duration = .seconds(50 * 60)
    /// A session that opens with a token older than this would see it change while the session is young.
    static let oldestForNewSession: Duration = .seconds(30 * 60)
    /// APNs objects to a second token within 20 minutes (429 `TooManyProviderTokenUpdates`).
    static let between: Duration = .seconds(20 * 60)

    /// How far ahead of our clock a saved token may be dated: clocks are set by little, too.
    static let mostAhead: Int64 = 60

    private(set) var mintedAt: Instant?
    /// The last time that a token was replaced within 20 minutes.
    private(set) var hurriedAt: Instant?
    /// Until then APNs wants no other token.
    private(set) var keptUntil: Instant?

    /// - Parameter mintedAt: of a token that is there already.
    init(mintedAt: Instant? = nil) { self.mintedAt = mintedAt }

    /// Of a token that another process left. `nil` if it is dated in the future, since nobody knows its age then, or too old.
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

    /// What another process knows of the same token.
    mutating func learn(from other: TokenSchedule) {
        if let kept = other.keptUntil { keptUntil = max(keptUntil ?? kept, kept) }
        if let hurried = other.hurriedAt { hurriedAt = max(hurriedAt ?? hurried, hurried) }
    }

    /// What the next process is told.
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
    /// Within 20 minutes only once: a young token can be too old because the clock was set meanwhile; a second one would be no better.
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

    /// APNs has seen too many tokens: this one is kept for 20 minutes, however old it gets.
    mutating func updatesRefused(now: Instant) {
        if !isKept(now: now) { keptUntil = now + TokenSchedule.between }
    }

    func isKept(now: Instant) -> Bool { keptUntil.map { now < $0 } ?? false }
}
