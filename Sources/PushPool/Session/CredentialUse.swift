/// Knows which credential each session of a pool presents, and which one is in use.
///
/// Ids of sessions grow, so that each credential has ranges of them. While a new credential is on trial (`PoolMachine`), none is
/// in use: a fault of the new credential is no reason to hold the app, and a response of an old session says nothing about the
/// new credential.
struct CredentialUse {
    /// The meaning of a response for the credential of its session.
    enum News {
        case none
        /// APNs has looked at the device token and rejected it, which a wrong environment would explain.
        case answered
        case accepted
        case refused

        init(_ rejection: Rejection) {
            switch RetryTable.meaning(of: rejection.status, rejection.reason) {
            case .final, .deadToken: self = .accepted
            case .suspectToken: self = .answered
            case .credential, .expiredProviderToken, .tokenUpdates: self = .refused
            case .topic, .topicOrChannel, .sessionEnd, .passing, .tooManyToOne, .tooManyToAll: self = .none
            }
        }
    }

    /// Ranges that are still known: their last outcomes may not have been read yet. A refused credential is tried again every
    /// minute, while the sessions of the one in use may live for days: their ranges stay.
    private static let mostRanges = 16

    /// The number of new credentials that the pool's thread has not applied yet.
    private var requested = 0
    private var last = 0
    private var present = 0
    private var isOnTrial = false
    /// Whether APNs has accepted the credential on trial: the pool's thread will end the trial.
    private var isProven = false
    /// The sessions after this one present this credential.
    private var ranges: [(after: SessionID, credential: Int)]

    /// - Parameter latest: the session before the first one of the pool.
    init(after latest: SessionID = SessionID(0)) { ranges = [(latest, 0)] }

    /// Whether the session presents the credential in use.
    func isPresent(_ session: SessionID) -> Bool {
        if requested > 0 || isOnTrial && !isProven { return false }
        return credential(of: session) == (isOnTrial ? last : present)
    }

    private func credential(of session: SessionID) -> Int? { ranges.last { $0.after < session }?.credential }

    /// The owner has replaced the credential.
    mutating func request() { requested += 1 }

    /// The pool's thread has applied a request.
    mutating func apply() { requested -= 1 }

    /// Sessions after `latest` present another credential.
    mutating func begin(after latest: SessionID, isOnTrial: Bool) {
        last += 1
        add(last, after: latest)
        (self.isOnTrial, isProven) = (isOnTrial, false)
        if !isOnTrial { present = last }
    }

    /// APNs has accepted the credential of this session.
    mutating func prove(_ session: SessionID) {
        if isOnTrial && credential(of: session) == last { isProven = true }
    }

    /// The trial has ended: the new credential is in use.
    mutating func adopt() { (present, isOnTrial) = (last, false) }

    /// The trial has ended: the previous credential is in use, also of the sessions after `latest`.
    mutating func revert(after latest: SessionID) {
        isOnTrial = false
        add(present, after: latest)
    }

    private mutating func add(_ credential: Int, after latest: SessionID) {
        ranges.append((latest, credential))
        guard ranges.count > Self.mostRanges else { return }
        // The sessions of a range that goes have ended long ago. They count to the range before it.
        ranges.remove(at: ranges.firstIndex { $0.credential != present } ?? 0)
        var merged = ranges.prefix(1)
        for range in ranges.dropFirst() where range.credential != merged.last?.credential { merged.append(range) }
        ranges = Array(merged)
    }
}
