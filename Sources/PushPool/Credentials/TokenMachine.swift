import Platform

/// Decides which provider token of one key is used, when another one is signed, and what other processes and machines learn: a
/// plain value. `ProviderTokenSource` is the lock around it; it reads and writes the file, and waits.
struct TokenMachine: Sendable {
    let key: SigningKey
    private(set) var token: ProviderToken?
    private(set) var schedule = TokenSchedule()
    var sharing: TokenSharing
    private var news: [TokenNews] = []
    /// Whether an error of the file has been reported.
    private var hasComplained = false

    /// - Parameter timeout: the longest wait for a reply of other machines.
    init(_ key: SigningKey, timeout: Duration) {
        self.key = key
        sharing = TokenSharing(timeout: timeout)
    }

    // MARK: Questions

    /// Whether APNs has called the token expired.
    var isRefused: Bool { token.map { $0.generation <= sharing.refused } ?? false }

    func isDue(forNewSession: Bool, now: Instant) -> Bool {
        token == nil || isRefused || schedule.isDue(forNewSession: forNewSession, now: now)
    }

    /// Whether there is no token newer than `generation`.
    func isStale(_ generation: UInt64) -> Bool { (token?.generation ?? 0) <= generation }

    /// The token with its history, as other processes read it.
    func saved(at moment: Moment) -> [UInt8]? { token.map { schedule.saved($0, at: moment).text } }

    /// The request to send to other machines now, if any.
    func request(_ seal: TokenSeal, at moment: Moment) -> ProviderTokenExchange.Request? {
        // Asking before the token is due keeps sessions from waiting.
        let isWanted = sharing.isAsking || token != nil && isDue(forNewSession: true, now: moment.now)
        guard isWanted || token != nil && !sharing.isShared else { return nil }
        var request = ProviderTokenExchange.Request(name: key.fileName)
        if isWanted { request.oldest = TokenSchedule.oldestForNewSession }
        guard let token, let mintedAt = schedule.mintedAt else { return request }
        let id = seal.id(of: token.bytes)
        if isRefused { request.refused = id }
        if !sharing.isShared && !isRefused, let sealed = saved(at: moment).flatMap(seal.seal) {
            request.offer = .init(sealed: sealed, id: id, age: max(.zero, moment.now - mintedAt))
        }
        return request
    }

    /// Returns all news since the last call.
    mutating func takeNews() -> [TokenNews] {
        defer { news = [] }
        return news
    }

    // MARK: Facts

    /// APNs has called the token of this generation, or an older one, expired. Returns whether it may be replaced.
    mutating func refused(_ generation: UInt64, at moment: Moment) -> Bool {
        guard isStale(generation), let token, schedule.mayRenew(now: moment.now) else { return false }
        sharing.refused = token.generation
        return true
    }

    /// APNs has seen too many tokens. Returns whether that is new.
    mutating func updatesRefused(at moment: Moment) -> Bool {
        if schedule.isKept(now: moment.now) { return false }
        schedule.updatesRefused(now: moment.now)
        return true
    }

    /// Signs another token. Returns whether OpenSSL could.
    mutating func mint(at moment: Moment) -> Bool {
        let minted = ProviderToken(signedBy: key, issuedAt: moment.unixTime, generation: nextGeneration, mintedAt: moment.now)
        guard let minted else { return false }
        token = minted
        sharing.isShared = false
        schedule.minted(now: moment.now)
        news.append(.minted(key: key.keyID))
        return true
    }

    /// The file has this content. Uses its token, unless it is unusable or older than the current one.
    mutating func found(_ content: [UInt8]?, at moment: Moment) {
        guard let content, let saved = SavedToken(text: content), key.hasSigned(saved),
            let stored = TokenSchedule(saved, at: moment)
        else { return }
        if let own = token {
            if saved.issuedAt < own.issuedAt { return }
            if saved.bytes == own.bytes { return schedule.learn(from: stored) }
        }
        use(saved, stored, isShared: false, at: moment)
    }

    /// Another machine has this token. Uses it, unless it is older than the current one, or APNs asked to keep the current one.
    /// Returns whether it did.
    mutating func received(_ saved: SavedToken, age: Duration, at moment: Moment) -> Bool {
        let mintedAt = moment.now - age
        let other = TokenSchedule(mintedAt: mintedAt)
        guard let own = token, let since = schedule.mintedAt else {
            use(saved, other, isShared: true, at: moment)
            return true
        }
        if saved.bytes == own.bytes {
            sharing.isShared = true
            // The other machines renewed their token less than 20 minutes ago: there is no newer one.
            if isRefused { schedule.renewed(now: moment.now) }
            sharing.refused = 0
            return false
        }
        guard isRefused || mintedAt > since && !schedule.isKept(now: moment.now) else { return false }
        let isEarly = isRefused && moment.now - since < TokenSchedule.between
        use(saved, other, isShared: true, at: moment)
        if isEarly { schedule.renewed(now: moment.now) }
        return true
    }

    private mutating func use(_ saved: SavedToken, _ schedule: TokenSchedule, isShared: Bool, at moment: Moment) {
        let mintedAt = schedule.mintedAt ?? moment.now
        token = ProviderToken(bytes: saved.bytes, issuedAt: saved.issuedAt, generation: nextGeneration, mintedAt: mintedAt)
        self.schedule = schedule
        sharing.isShared = isShared
        news.append(.found(key: key.keyID, age: moment.now - mintedAt))
    }

    private var nextGeneration: UInt64 { (token?.generation ?? 0) + 1 }

    /// Reports once that tokens cannot be stored or read.
    mutating func complain(_ why: String) {
        if hasComplained { return }
        hasComplained = true
        news.append(.notKept(key: key.keyID, why))
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

/// Decides when a source waits for a reply of the exchange, and when it continues without one. Knows no thread and no clock.
///
/// | state | `ask` | `replied` | `failed` |
/// |---|---|---|---|
/// | idle | asked | idle | alone |
/// | asked, for less than `timeout` | asked | idle | alone |
/// | asked, for longer | alone | idle | alone |
/// | alone, for less than `solitude` | alone | idle | alone |
struct TokenSharing: Equatable {
    enum Answer: Equatable {
        /// A new request.
        case asked
        /// A reply to an earlier request is expected.
        case waiting
        /// The exchange does not respond.
        case alone
    }

    /// The longest wait of a session that has no token.
    let timeout: Duration
    /// The time without further waits after a request that got no reply.
    static let solitude = Duration.seconds(30)
    /// A permission to sign is used within this time, well before the exchange gives it to another process.
    static let permission = Duration.seconds(3)

    private var askedAt: Instant?
    private var aloneUntil: Instant?
    /// Whether the exchange has the present token.
    var isShared = false
    /// The generation that APNs has called expired.
    var refused: UInt64 = 0

    init(timeout: Duration = .seconds(2)) { self.timeout = timeout }

    /// Whether a request waits for its reply.
    var isAsking: Bool { askedAt != nil }

    mutating func ask(now: Instant) -> Answer {
        if let aloneUntil, now < aloneUntil { return .alone }
        guard let askedAt else {
            self.askedAt = now
            return .asked
        }
        if now - askedAt < timeout { return .waiting }
        failed(now: now)
        return .alone
    }

    mutating func replied() { (askedAt, aloneUntil) = (nil, nil) }

    mutating func failed(now: Instant) { (askedAt, aloneUntil) = (nil, now + Self.solitude) }
}
